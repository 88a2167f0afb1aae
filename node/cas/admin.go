package cas

import (
	"context"
	"errors"

	"github.com/fenlock/fenlock/node"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error { return n.Fail("join", n.admission.Join(g)) }

// Registers implements node.Rejoiner. A memory that was lost has a name only once that was noted.
func (n *Node) Registers(ctx context.Context) (r node.Registers, err error) {
	err = n.Run(ctx, "registers", func(ctx context.Context) error {
		if _, err := n.admission.Noted(ctx); err != nil {
			return err
		}
		r, err = n.store.Registers(ctx)
		return err
	})
	return r, err
}

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (l node.Lease, err error) {
	err = n.Run(ctx, "inspect", func(ctx context.Context) error {
		return n.see(ctx, name, func(loaded Loaded) error {
			s, err := loaded.store(node.Stripe(name))
			l = s.Lease(name, loaded.Clock)
			l.Remaining, l.Members, l.Out = n.shown(l.Remaining), loaded.Terms.Members, !loaded.Votes
			return err
		})
	})
	return l, err
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	err = n.Run(ctx, "waiting", func(ctx context.Context) error {
		return n.see(ctx, name, func(loaded Loaded) error {
			s, err := loaded.store(node.Stripe(name))
			first, all = s.Waiting(name, loaded.Clock, limit)
			return err
		})
	})
	return first, all, err
}

// see loads the record of a name for an operator, without the leases that have ended.
func (n *Node) see(ctx context.Context, name string, look func(Loaded) error) error {
	for try := 0; ; try++ {
		l, err := n.store.Load(ctx, node.Stripe(name))
		if err == nil {
			if l.Close != nil {
				l.Close()
			}
			err = n.permits(l, node.Request{Op: node.Confirm})
		}
		if err == nil && l.Closer != nil {
			l.Record, err = l.Closer(ctx)
		}
		switch {
		case err == nil:
			return look(l)
		case try >= mostAgain || !errors.Is(err, ErrConflict) && !errors.Is(err, ErrAgain):
			return err
		}
	}
}

// List implements node.Admin.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	return n.Run(ctx, "list", func(ctx context.Context) (err error) {
		listed := n.store.List(ctx, func(stripe int, l Loaded) bool {
			s, bad := l.store(stripe)
			if err = bad; bad != nil {
				return false
			}
			for _, of := range s.All(prefix, l.Clock) {
				of.Remaining = n.shown(of.Remaining)
				if !yield(of) {
					return false
				}
			}
			return true
		})
		if err == nil {
			err = listed
		}
		return err
	})
}
