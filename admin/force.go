package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Broken is what a ForceRelease came to.
type Broken struct {
	// Lock is what was there before, a moment ago: who held it, since when, with which token.
	Lock LockInfo
	// Token is larger than every token of the broken holder's, and smaller than every one
	// that is given from now on; 0 if there was nothing to break.
	Token fence.Token
}

// passes bounds how often the nodes are asked for the same number. It is larger than what they have
// answered, by ever more. So other clients, which raise the registers of the stripe at the same
// moment, do not come past it.
const (
	passes = 8
	ahead  = 1 << 10
)

// ForceRelease breaks a lock: it takes the lease from its holder. The old holder cannot extend it
// any more, whatever it does. That holder hears of it with its next extension, at most a third of
// its TTL later; what it writes until then is for its token to stop. The next waiter is notified.
//
// Where no node has a lease it does nothing, and the Broken has no token.
//
// An error matches fenlock.ErrInvalid, ctx's own or, if too few nodes answer and vote, and are of
// this group as they have recorded it, ErrNoQuorum. If that is known before, nothing was sent to
// break it; a majority that fails in the middle leaves the holder in doubt: some nodes have its
// lease no more, and it may make them again. Then it is to be repeated, which does no harm.
func (a *Admin) ForceRelease(ctx context.Context, name string) (Broken, error) {
	if err := fenlock.CheckName(name); err != nil {
		return Broken{}, err
	}
	said, err := a.look(ctx, "force release", name)
	b := Broken{Lock: judge(name, a.names, said)}
	if err != nil || untaken(said) {
		return b, err
	}
	answers, failed := make([]fence.Token, len(a.nodes)), a.strangers(said)
	if err := a.missing(ctx, "force release", name, failed); err != nil {
		return b, err
	}
	var known fence.Token
	for _, s := range said {
		if s.lease.Register <= node.MaxRegister {
			known = max(known, s.lease.Register)
		}
	}
	asked := slices.DeleteFunc(a.all(), func(i int) bool { return failed[i] != nil })
	for pass := range passes {
		floor := known + ahead<<pass // known changes while who hangs is still asked
		all := ask(ctx, a, asked, nil, func(ctx context.Context, i int) (fence.Token, error) {
			return a.force(ctx, i, name, floor)
		})
		asked = nil // a node that has not answered is not waited for again
		for i, s := range all {
			if failed[i] = cmp.Or(s.err, failed[i]); failed[i] == nil {
				answers[i], asked = s.value, append(asked, i)
				known = max(known, s.value)
			}
		}
		if err := a.missing(ctx, "force release", name, failed); err != nil {
			return b, fmt.Errorf("%w; some nodes may have dropped the lease, and its holder may make it again: do it once more when a majority votes", err)
		}
		if to, same := core.ForceNext(answers); to == 0 {
			b.Token = same
			return b, nil
		}
	}
	return b, fmt.Errorf("fenlock: force release %q: after %d passes the nodes still have different numbers, since others take locks all the time: try again", name, passes)
}

// strangers returns the errors of nodes that have recorded another group than this one, and are not
// asked. A majority of some of a group's nodes is none, and would leave the old holder with the
// others. Which group this is, the most frequent record of as many nodes says.
func (a *Admin) strangers(all []seen) []error {
	named := map[string]int{}
	group := ""
	for _, s := range all {
		if of := s.lease.Members; len(strings.Fields(of)) == len(a.nodes) {
			if named[of]++; named[of] > named[group] {
				group = of
			}
		}
	}
	errs := make([]error, len(a.nodes))
	for i, s := range all {
		if of := s.lease.Members; s.err == nil && of != "" && of != group {
			errs[i] = fmt.Errorf("%s: %w: it has recorded a group of %d nodes that is not the one named here: name all nodes of the group, and no others; nothing was sent to it",
				a.names[i], fenlock.ErrMisconfigured, len(strings.Fields(of)))
		}
	}
	return errs
}

// untaken reports whether all nodes have answered that the name is free.
func untaken(all []seen) bool {
	return !slices.ContainsFunc(all, func(s seen) bool { return s.err != nil || s.lease.Leased || s.lease.Out })
}

func (a *Admin) force(ctx context.Context, i int, name string, floor fence.Token) (fence.Token, error) {
	answer, err := a.nodes[i].Do(ctx, node.Request{Op: node.ForceRelease, Name: name, Token: floor})
	switch {
	case err != nil:
		return 0, err
	case answer.Status == node.Rejoining:
		return 0, fmt.Errorf("%s: it does not vote: %w", a.names[i], &node.AbsenceError{Absence: answer.Absence})
	case answer.Status != node.Granted:
		return 0, fmt.Errorf("%s: unexpected answer: %v", a.names[i], answer.Status)
	case answer.Register > node.MaxRegister:
		return 0, fmt.Errorf(
			"%s: %w: it answers with the number %d, which fenlock has not made: its register was changed by hand", a.names[i],
			fenlock.ErrMisconfigured, answer.Register)
	}
	return answer.Register, nil
}
