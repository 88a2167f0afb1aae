package memnode

import (
	"context"
	"fmt"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node. Whoever is notified is told after it, in the same goroutine.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.Check(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	n.tryRejoin(ctx)
	if err := n.enter(ctx); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	s := n.store
	now := s.clock()
	o := s.Begin(r.Name, now, func(waiter string) bool { return len(s.listenersOf(waiter)) > 0 })
	a, notify := rule.Serve(&o.Entry, o, now, r)
	o.Commit()
	if a.Status == node.Rejoining {
		a.Detail = n.outSince(now)
	}
	tell := s.listenersOf(notify)
	s.mu.Unlock()
	for _, l := range tell {
		l.notify(notify)
	}
	return a, nil
}

// enter locks the store, or says why the operation must not be executed.
func (n *Node) enter(ctx context.Context) error {
	if n.closed.Load() {
		return ErrClosed
	}
	n.store.mu.Lock()
	err := ctx.Err()
	if n.store.down {
		err = ErrDown
	}
	if err != nil {
		n.store.mu.Unlock()
	}
	return err
}

func (n *Node) errorf(op string, err error) error {
	return fmt.Errorf("memnode %s: %s: %w", n.name, op, err)
}
