package respnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Inspect implements node.Admin. It reads in one transaction.
func (n *Node) Inspect(ctx context.Context, name string) (lease node.Lease, err error) {
	defer func() { err = n.errors.Fail(err) }()
	commands, err := n.keys.Inspect(name)
	if err != nil {
		return lease, err
	}
	server, err := n.voting.Look(ctx)
	if err != nil {
		return lease, err
	}
	replies, err := n.link.DoMulti(ctx, commands...)
	if err != nil {
		return lease, err
	}
	return command.ParseInspect(name, replies, server.Marked)
}

// Waiting implements node.Admin. It reads in one transaction.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	defer func() { err = n.errors.Fail(err) }()
	commands, err := n.keys.Waiting(name, limit)
	if err != nil {
		return nil, 0, err
	}
	replies, err := n.read(ctx, commands)
	if err != nil {
		return nil, 0, err
	}
	return command.ParseWaiting(replies)
}

// read sends commands to a server that was looked at.
func (n *Node) read(ctx context.Context, commands []resp.Command) ([]resp.Reply, error) {
	if _, err := n.voting.Look(ctx); err != nil {
		return nil, err
	}
	return n.link.DoMulti(ctx, commands...)
}

// listAtOnce bounds how many leases are read with one write.
const listAtOnce = 100

// List implements node.Admin. With an empty prefix of the keys (WithPrefix) every string
// on the server could be a lock's; then only values that fenlock wrote are listed.
func (n *Node) List(ctx context.Context, prefix string, yield func(node.Lease) bool) (err error) {
	defer func() { err = n.errors.Fail(err) }()
	if _, err := n.voting.Look(ctx); err != nil {
		return err
	}
	var seen recent // SCAN may return a key twice
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		reply, err := n.link.Do(ctx, n.keys.Scan(prefix, cursor))
		if err != nil {
			return err
		}
		next, found, err := reply.AsScan()
		if err != nil {
			return err
		}
		cursor = next
		for keys := found; len(keys) > 0; keys = keys[min(listAtOnce, len(keys)):] {
			if more, err := n.list(ctx, keys[:min(listAtOnce, len(keys))], &seen, yield); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// recent remembers names. A server that lists new ones without end does not use up the
// memory: what is forgotten may be listed twice.
type recent map[string]bool

const mostRecent = 1 << 17

// first reports whether the name is not remembered, and remembers it.
func (r *recent) first(name string) bool {
	if (*r)[name] {
		return false
	}
	if *r == nil || len(*r) == mostRecent {
		*r = make(recent)
	}
	(*r)[name] = true
	return true
}

// list yields the leases among some keys that were not seen before.
func (n *Node) list(ctx context.Context, keys []string, seen *recent, yield func(node.Lease) bool) (more bool,
	err error) {
	var names []string
	var commands []resp.Command
	for _, key := range keys {
		name, ask := n.keys.Listed(key)
		if ask == nil || !seen.first(name) {
			continue
		}
		names, commands = append(names, name), append(commands, ask...)
	}
	if len(names) == 0 {
		return true, nil
	}
	replies, err := n.link.DoMulti(ctx, commands...)
	if err != nil {
		return false, err
	}
	for i, name := range names {
		lease, listed, err := n.keys.ParseListed(name, replies[i*command.PerListed:][:command.PerListed])
		if err != nil {
			return false, err
		}
		if listed && !yield(lease) {
			return false, nil
		}
	}
	return true, nil
}
