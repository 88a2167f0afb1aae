package bucketnode

import (
	"context"
	"net"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// examine reads the object. If the look is thorough, it tries whether the store keeps conditions:
// with an object of its own, which it removes.
func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	s := n.store
	if e.Address = s.endpoint; s.client.EndpointURL().Port() != "" {
		e.Address, _, _ = net.SplitHostPort(s.endpoint)
	}
	var snap *snapshot
	err := engine.MeasureTrips(e, func() (clock time.Time, err error) {
		if snap, err = s.read(ctx); err == nil && snap.state != nil {
			clock = time.UnixMicro((snap.clock + coarse/2).Microseconds())
		}
		return clock, err
	})
	if err != nil {
		return err
	}
	if !e.Clock.Store.IsZero() {
		e.Clock.Within = coarse / 2
	}
	snap.facts(s.here()).Examine(e, look.MaxTTL)
	if look.Thorough {
		return s.proof.try(ctx)
	}
	return nil
}
