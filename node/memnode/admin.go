package memnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
)

// Inspect implements node.Admin. A node that is not admitted shows what it has.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	if err := n.enter(ctx, "inspect"); err != nil {
		return node.Lease{}, err
	}
	defer n.store.mu.Unlock()
	return n.store.Lease(name, n.store.clock()), nil
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	if err := n.enter(ctx, "waiting"); err != nil {
		return nil, 0, err
	}
	defer n.store.mu.Unlock()
	first, all = n.store.Waiting(name, n.store.clock(), limit)
	return first, all, nil
}

// List implements node.Admin, in the order of the names. It works on a copy,
// so that yield may call the node.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	if err := n.enter(ctx, "list"); err != nil {
		return err
	}
	all := n.store.All(prefix, n.store.clock())
	n.store.mu.Unlock()
	for _, l := range all {
		if err := ctx.Err(); err != nil {
			return n.errorf("list", err)
		}
		if !yield(l) {
			break
		}
	}
	return nil
}
