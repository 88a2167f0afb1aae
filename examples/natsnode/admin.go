package natsnode

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
)

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (l node.Lease, err error) {
	ctx, done, err := n.life.Begin(ctx)
	if err != nil {
		return l, n.errorf("inspect", err)
	}
	defer done()
	r, at, _, err := n.load(ctx, node.Stripe(name))
	if err != nil {
		return l, n.errorf("inspect", err)
	}
	return r.Lease(name, at.clock), nil
}

// Waiting implements node.Admin: there are no queues.
func (n *Node) Waiting(ctx context.Context, _ string, _ int) ([]node.Waiter, int, error) {
	_, done, err := n.life.Begin(ctx)
	if err == nil {
		done()
	}
	return nil, 0, n.errorf("waiting", err)
}

// List implements node.Admin. It reads one stripe at a time.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	ctx, done, err := n.life.Begin(ctx)
	if err != nil {
		return n.errorf("list", err)
	}
	defer done()
	return n.errorf("list", n.list(ctx, prefix, yield))
}

func (n *Node) list(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	info, err := n.stream.Info(ctx, jetstream.WithSubjectFilter(n.config.subject(">")))
	if err != nil {
		return configuration(err)
	}
	for subject := range info.State.Subjects {
		stripe, ours := n.config.stripe(subject)
		if !ours {
			continue // the mark, or in no client's way
		}
		r, at, _, err := n.load(ctx, stripe)
		if err != nil {
			return err
		}
		for _, l := range r.All(prefix, at.clock) {
			if !yield(l) {
				return nil
			}
		}
	}
	return nil
}
