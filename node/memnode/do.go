package memnode

import (
	"context"
	"fmt"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node. Whoever is notified is told after it, in the same goroutine.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	n.tryRejoin(ctx)
	if err := n.enter(ctx, r.Op.String()); err != nil {
		return node.Answer{}, err
	}
	s := n.store
	now := s.clock()
	o := s.Begin(r.Name, now, func(waiter string) bool { return len(s.listenersOf(waiter)) > 0 })
	a, notify := rule.ServeShared(&o.Entry, o, now, r)
	o.Commit()
	if a.Status == node.Rejoining {
		a.Detail = n.outSince(now)
	}
	tell := make([][]listener, len(notify))
	for i, waiter := range notify {
		tell[i] = s.listenersOf(waiter)
	}
	s.mu.Unlock()
	for i, waiter := range notify {
		for _, l := range tell[i] {
			l.notify(waiter)
		}
	}
	return a, nil
}

// Shares implements node.Sharer.
func (n *Node) Shares() {}

// enter locks the store, or says why the operation must not be executed.
func (n *Node) enter(ctx context.Context, op string) error {
	n.store.mu.Lock()
	err := ctx.Err()
	switch {
	case n.closed.Load():
		err = ErrClosed
	case n.store.down:
		err = ErrDown
	case err == nil:
		return nil
	}
	n.store.mu.Unlock()
	return n.errorf(op, err)
}

func (n *Node) errorf(op string, err error) error {
	return fmt.Errorf("memnode %s: %s: %w", n.name, op, err)
}
