package valkeynode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
)

// Inspect implements node.Admin. It reads in one transaction.
func (n *Node) Inspect(ctx context.Context, name string) (lease node.Lease, err error) {
	defer func() { err = n.errors.Fail(err) }()
	commands, err := n.keys.Inspect(n.conn.B(), name)
	if err != nil {
		return lease, err
	}
	if _, err := n.voting.Look(ctx); err != nil {
		return lease, err
	}
	replies, err := n.conn.DoMulti(ctx, commands...)
	if err != nil {
		return lease, err
	}
	return command.ParseInspect(name, replies)
}

// List implements node.Admin. With an empty prefix every string on the server
// could be a lock's key; then only values that fenlock wrote are listed.
func (n *Node) List(ctx context.Context, yield func(node.Lease) bool) (err error) {
	defer func() { err = n.errors.Fail(err) }()
	if _, err := n.voting.Look(ctx); err != nil {
		return err
	}
	seen := make(map[string]bool) // SCAN may return a key twice
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		reply, err := n.conn.Do(ctx, n.keys.Scan(n.conn.B(), cursor))
		if err != nil {
			return err
		}
		page, err := reply.AsScanEntry()
		if err != nil {
			return err
		}
		cursor = page.Cursor
		for _, key := range page.Elements {
			name, commands := n.keys.Listed(n.conn.B(), key)
			if seen[key] || commands == nil {
				continue
			}
			seen[key] = true
			replies, err := n.conn.DoMulti(ctx, commands...)
			if err != nil {
				return err
			}
			lease, listed, err := n.keys.ParseListed(name, replies)
			if err != nil {
				return err
			}
			if listed && !yield(lease) {
				return nil
			}
		}
	}
	return nil
}
