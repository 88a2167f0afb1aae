package memnode

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Examine implements node.Examiner. What takes no time has no round trip, and a node in
// memory has no wall clock of its own.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "memory", Role: "memory", Member: n.name}
	start := time.Now()
	if err := n.enter(ctx, "examine"); err != nil {
		return e, err
	}
	defer n.store.mu.Unlock()
	s := n.store
	e.Server, e.Memory, e.Empty = s.server(), s.memory(s.restarted), s.empty
	e.Uptime, e.RoundTrip, e.Untouched = s.clock()-s.restarted, time.Since(start), true
	g := n.group.Load()
	if g != nil {
		e.MaxTTL = g.MaxTTL
	} else {
		g = &node.Group{MaxTTL: look.MaxTTL} // who only looks is in no group
	}
	if e.Admitted = !s.Out; e.Admitted {
		return e, nil
	}
	e.Why, e.Rebuild = "restarted without its memory", true
	e.Wait = max(s.quarantineEnd(g)-s.clock(), 0)
	return e, nil
}
