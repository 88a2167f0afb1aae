package memnode

import (
	"cmp"
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
	e.Uptime, e.RoundTrip = s.clock()-s.restarted, time.Since(start)
	s.facts().Examine(&e, cmp.Or(n.admission.Terms().MaxTTL, look.MaxTTL))
	return e, nil
}
