package zknode

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
)

// examineReads is how often the record is read, to find the shortest time that takes.
const examineReads = 3

// Examine implements node.Examiner.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "ZooKeeper", Role: "ensemble", Member: n.member}
	err := n.examine(ctx, look, &e)
	return e, n.errorf("examine", err)
}

func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	link, err := n.session.Link(ctx)
	if err != nil {
		return err
	}
	e.Address = link.Server()
	var g groupRecord
	var found bool
	for range examineReads {
		before := time.Now()
		if g, _, found, err = n.admission.look(ctx, link); err != nil {
			return err
		}
		if trip := time.Since(before); e.RoundTrip == 0 || trip < e.RoundTrip {
			e.RoundTrip = trip
		}
	}
	if !found {
		e.Why, e.Rebuild, e.Untouched = waits(quarantine(look.MaxTTL)), true, true
		e.Wait = quarantine(look.MaxTTL)
		return nil
	}
	e.Server, e.Memory, e.Admitted, e.Empty, e.MaxTTL = g.server, g.memory, g.admitted, g.empty, g.maxTTL
	return g.check(n.admission.joined.Load())
}
