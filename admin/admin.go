// Package admin shows an operator the locks of a quorum group, and breaks one.
package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Admin asks all nodes of one quorum group at once; what it says holds for a moment only.
// To look changes nothing, and needs neither the group's MaxTTL nor an admission: no node is
// let in by it. It is safe for concurrent use.
type Admin struct {
	nodes []fenlock.Node
	names []string
}

// New returns the Admin of a group. Nodes are all nodes of the group, and no others, since the
// Admin counts majorities among them. The caller closes them in the end. The error matches
// fenlock.ErrInvalid.
func New(nodes []fenlock.Node) (*Admin, error) {
	if err := fenlock.CheckNodes(nodes); err != nil {
		return nil, err
	}
	return of(nodes), nil
}

// Of returns the Admin of a Locker's nodes. It can be used until Locker.Close.
func Of(l *fenlock.Locker) *Admin { return of(l.Nodes()) }

func of(nodes []fenlock.Node) *Admin {
	a := &Admin{nodes: slices.Clone(nodes)}
	for _, n := range nodes {
		a.names = append(a.names, n.String())
	}
	return a
}

// Inspect shows one name: its holder, since when, the token, what each node says of it, and its
// waiters, at most the first 100. A name that was never locked is free.
//
// The error matches ErrInvalid or ctx's own; or ErrNoQuorum if too few nodes answered, and
// then what they said is returned with it.
func (a *Admin) Inspect(ctx context.Context, name string) (LockInfo, error) {
	if err := fenlock.CheckName(name); err != nil {
		return LockInfo{}, err
	}
	said, err := a.look(ctx, "inspect", name)
	return judge(name, a.names, said), err
}

// look asks all nodes about a name, for an operation.
func (a *Admin) look(ctx context.Context, op, name string) ([]seen, error) {
	return a.see(ctx, op, name, nil, func(ctx context.Context, admin node.Admin, s *seen) (err error) {
		s.waiters, s.waiting, err = admin.Waiting(ctx, name, most)
		return err
	})
}

// Holder is Inspect without the waiters, for programs that ask often. It asks each node for one
// thing, and waits for no node that cannot change the result. Settled reports that a majority of
// the nodes has heard of the token, so that every later token is larger. Before that, the token may
// be of an attempt that fails. The errors are Inspect's.
func (a *Admin) Holder(ctx context.Context, name string) (l LockInfo, settled bool, err error) {
	if err := fenlock.CheckName(name); err != nil {
		return LockInfo{}, false, err
	}
	said, err := a.see(ctx, "inspect", name, func(said []seen) bool {
		l := judge(name, a.names, said)
		return l.State == Free || l.State == Held && heard(l.Token, said)
	}, func(context.Context, node.Admin, *seen) error { return nil })
	l = judge(name, a.names, said)
	return l, heard(l.Token, said), err
}

// heard reports whether a majority has heard of a token.
func heard(token fence.Token, said []seen) bool {
	by := 0
	for _, s := range said {
		if s.err == nil && token > 0 && (s.lease.Token == token || s.lease.Register >= token) {
			by++
		}
	}
	return by >= node.Quorum(len(said))
}

// see asks all nodes about a lease, and for more.
func (a *Admin) see(ctx context.Context, op, name string, enough func([]seen) bool,
	more func(context.Context, node.Admin, *seen) error) ([]seen, error) {
	flat := func(all []said[seen]) (flat []seen) {
		for _, s := range all {
			s.value.err = s.err
			flat = append(flat, s.value)
		}
		return flat
	}
	all := ask(ctx, a, a.all(), func(all []said[seen]) bool { return enough != nil && enough(flat(all)) },
		func(ctx context.Context, i int) (s seen, err error) {
			admin, err := a.admin(i)
			if err != nil {
				return s, err
			}
			if s.lease, err = admin.Inspect(ctx, name); err != nil {
				return s, err
			}
			return s, more(ctx, admin, &s)
		})
	return flat(all), a.missing(ctx, op, name, failures(all))
}

func (a *Admin) admin(i int) (node.Admin, error) {
	admin, ok := a.nodes[i].Engine().(node.Admin)
	if !ok {
		return nil, fmt.Errorf("%s: %w: it cannot show its leases", a.names[i], errors.ErrUnsupported)
	}
	return admin, nil
}

func (a *Admin) errors(failed []error) (errs []fenlock.NodeError) {
	for i, err := range failed {
		if err != nil {
			errs = append(errs, fenlock.NodeError{Node: a.names[i], Err: err})
		}
	}
	return errs
}

// missing is the error of an operation that so many nodes failed that the others are no
// quorum, or nil.
func (a *Admin) missing(ctx context.Context, op, name string, failed []error) error {
	errs := a.errors(failed)
	if len(a.nodes)-len(errs) >= node.Quorum(len(a.nodes)) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("fenlock: %s %q: %w", op, name, context.Cause(ctx))
	}
	return &fenlock.QuorumError{Op: op, Name: name, Nodes: len(a.nodes), Need: node.Quorum(len(a.nodes)), Errors: errs}
}

// How long a node is waited for: at most patience; and, once a majority has answered, only
// grace more, or a little where what it has said is enough. A node that hangs does not hold up the
// answers of the others.
const (
	patience = 2 * time.Second
	grace    = 500 * time.Millisecond
	little   = 150 * time.Millisecond
)

// errPatience is the error of a node that was not waited for.
var errPatience = errors.New("no answer in time")

// said is what a node answered.
type said[T any] struct {
	value T
	err   error
}

// all is every node.
func (a *Admin) all() (all []int) {
	for i := range a.nodes {
		all = append(all, i)
	}
	return all
}

// ask asks nodes at once, and returns what they said, by node. It returns when all have answered,
// or when a majority of the group has and the others were waited for. It waits for a little if
// enough, which may be nil, is true, otherwise for the grace. A node that was not asked has said
// nothing, without an error.
func ask[T any](ctx context.Context, a *Admin, which []int, enough func([]said[T]) bool,
	f func(ctx context.Context, i int) (T, error)) []said[T] {
	inner, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := make([]said[T], len(a.nodes))
	type answer struct {
		i int
		said[T]
	}
	answers := make(chan answer, len(which))
	for _, i := range which {
		all[i].err = a.silence(i)
		go func() {
			value, err := f(inner, i)
			answers <- answer{i, said[T]{value, a.late(ctx, i, err)}}
		}()
	}
	var early, up <-chan time.Time
	for left, good := len(which), 0; left > 0; {
		select {
		case got := <-answers:
			all[got.i] = got.said
			left--
			if got.err == nil {
				good++
			}
			if good >= node.Quorum(len(a.nodes)) && up == nil {
				early, up = time.After(little), time.After(grace)
			}
		case <-early:
			if enough != nil && enough(all) {
				return all
			}
		case <-up:
			return all
		case <-inner.Done():
			for _, i := range which {
				if errors.Is(all[i].err, errPatience) {
					all[i].err = a.silence(i) // the node may know by now why it does not answer
				}
			}
			return all
		}
	}
	return all
}

// late is the error of a node, in words where it is only that its time is up.
func (a *Admin) late(ctx context.Context, i int, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return a.silence(i)
	}
	return err
}

// silence is the error of a node that has not answered in time.
func (a *Admin) silence(i int) error {
	if ailing, ok := a.nodes[i].Engine().(node.Ailing); ok {
		if why := ailing.Ails(); why != nil {
			return fmt.Errorf("%s: %w: %v", a.names[i], errPatience, why)
		}
	}
	return fmt.Errorf("%s: %w", a.names[i], errPatience)
}

func failures[T any](all []said[T]) (errs []error) {
	for _, s := range all {
		errs = append(errs, s.err)
	}
	return errs
}
