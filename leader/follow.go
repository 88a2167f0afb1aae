package leader

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Leader is who holds a lock, as a follower sees it.
type Leader struct {
	Term  fence.Token // the token; 0: there is no leader
	Label string
	Since time.Time // when its attempt began, on its own wall clock
}

// followEvery is between two looks. followSoon is after a look that saw a candidate whose term is
// being agreed upon, mostSoon times at most. It may never be, and another Redlock client has none.
const (
	followEvery = 600 * time.Millisecond
	followSoon  = 50 * time.Millisecond
	mostSoon    = 10
)

// Follow returns, from the nodes of an Admin, the leader under a name, and then each change, until
// ctx is done. A change is a leader with a larger term than those before, or none. After none it
// may be the last leader again, whose leases nodes had forgotten. A follower that is slow misses
// what has changed back meanwhile. It asks each node for one thing, less than twice a second, and
// so hears of a change within a second.
//
// The error is not nil while too few nodes answer to tell, and matches fenlock.ErrNoQuorum: the
// leader that was known may lead on. It is yielded once, and then the leader again when that is
// known. An error that matches fenlock.ErrInvalid ends it.
func Follow(ctx context.Context, a *admin.Admin, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := fenlock.CheckName(name); err != nil {
			yield(Leader{}, err)
			return
		}
		f := follower{admin: a, name: name}
		for ctx.Err() == nil {
			began := time.Now()
			now, wait, err := f.look(ctx)
			if ctx.Err() != nil {
				return
			}
			if f.news(now, err) && !yield(f.leader, err) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(max(wait-time.Since(began), followSoon)):
			}
		}
	}
}

// follower is one range over Follow.
type follower struct {
	admin   *admin.Admin
	name    string
	leader  Leader
	largest fence.Token // of all terms
	told    bool        // something
	failed  bool        // an error was told, and nothing since
	soon    int         // looks since a term was agreed upon, or there was no leader
}

// look asks who leads, and returns how long after it began to ask again.
func (f *follower) look(ctx context.Context) (now Leader, wait time.Duration, err error) {
	l, settled, err := f.admin.Holder(ctx, f.name)
	wait = followEvery*3/4 + rand.N(followEvery/2)
	switch {
	case err != nil:
		return f.leader, wait, err
	case l.State == admin.Unclear:
		n := len(l.Votes)
		return f.leader, wait, &fenlock.QuorumError{Op: "inspect", Name: f.name, Nodes: n, Need: node.Quorum(n),
			Errors: unclear(l)}
	case l.State == admin.Free:
		f.soon = 0
		return Leader{}, wait, nil
	case !settled:
		if f.soon++; f.soon <= mostSoon {
			wait = followSoon
		}
		if l.Label == f.leader.Label && l.Since.Equal(f.leader.Since) {
			return f.leader, wait, nil
		}
		return Leader{}, wait, nil // the previous leader has lost its leases
	}
	f.soon = 0
	if l.Token < f.largest { // of nodes that have not heard of its successor
		return f.leader, wait, nil
	}
	return Leader{Term: l.Token, Label: l.Label, Since: l.Since}, wait, nil
}

// unclear lists the nodes that keep it from being clear.
func unclear(l admin.LockInfo) (all []fenlock.NodeError) {
	for _, v := range l.Votes {
		switch {
		case v.Err != nil:
			all = append(all, fenlock.NodeError{Node: v.Node, Err: v.Err})
		case v.Out:
			all = append(all, fenlock.NodeError{Node: v.Node,
				Err: errors.New("it does not vote, and may have forgotten a lease")})
		}
	}
	return all
}

// news takes what was seen, and reports whether it is to be told.
func (f *follower) news(now Leader, err error) bool {
	changed := !f.told || now != f.leader || f.failed != (err != nil)
	f.leader, f.failed, f.told = now, err != nil, true
	f.largest = max(f.largest, now.Term)
	return changed
}
