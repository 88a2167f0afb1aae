package memnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node. Waiters are notified after it, in the same goroutine.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	a, err := n.serve(ctx, r)
	if err == nil && a.Status == node.Rejoining {
		// It did nothing. If the node is admitted now, that was in vain.
		if a.Absence, err = n.admission.Admit(ctx); err == nil && a.Absence == (node.Absence{}) {
			if a, err = n.serve(ctx, r); a.Status == node.Rejoining {
				a.Absence = node.Absence{Cause: node.Changed}
			}
		}
		if err != nil {
			err = n.errorf(r.Op.String(), err)
		}
	}
	return a, err
}

// serve carries out an operation in one step, and then tells who is notified.
func (n *Node) serve(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := n.enter(ctx, r.Op.String()); err != nil {
		return node.Answer{}, err
	}
	s := n.store
	if err := n.admission.Check(s.terms); err != nil && r.Op != node.Release {
		s.mu.Unlock()
		return node.Answer{}, n.errorf(r.Op.String(), node.NotSent(err))
	}
	now := s.clock()
	o := s.Begin(r.Name, now, func(waiter string) bool { return len(s.listenersOf(waiter)) > 0 })
	a, notify := rule.ServeShared(&o.Entry, o, now, r)
	o.Commit()
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
