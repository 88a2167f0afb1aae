//go:build linux || darwin || freebsd

package filenode

import (
	"cmp"
	"context"
	"slices"

	"github.com/fenlock/fenlock/node"
)

// Inspect implements node.Admin.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	lease, err := in(ctx, n, roomOf(name), false, func() (l node.Lease, err error) {
		r, err := readRoom(n, &n.header, roomOf(name))
		if err == nil {
			now := n.clock()
			n.bury(r, now)
			l = r.Lease(name, now)
		}
		return l, err
	})
	return lease, n.errorf("inspect", err)
}

// Waiting implements node.Admin.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	type queue struct {
		first []node.Waiter
		all   int
	}
	q, err := in(ctx, n, roomOf(name), false, func() (q queue, err error) {
		r, err := readRoom(n, &n.header, roomOf(name))
		if err == nil {
			q.first, q.all = r.Waiting(name, n.clock(), limit)
		}
		return q, err
	})
	return q.first, q.all, n.errorf("waiting", err)
}

// List implements node.Admin, in the order of the names' bytes. No lock is held while yield runs:
// it may take its time, and call the node.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	var all []node.Lease
	for number := range rooms {
		some, err := in(ctx, n, number, false, func() (some []node.Lease, err error) {
			r, err := readRoom(n, &n.header, number)
			if err == nil {
				now := n.clock()
				n.bury(r, now)
				some = r.All(prefix, now)
			}
			return some, err
		})
		if err != nil {
			return n.errorf("list", err)
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b node.Lease) int { return cmp.Compare(a.Name, b.Name) })
	for _, l := range all {
		if !yield(l) {
			break
		}
	}
	return nil
}
