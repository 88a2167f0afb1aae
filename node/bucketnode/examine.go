package bucketnode

import (
	"context"
	"net"
	"time"

	"github.com/fenlock/fenlock/node"
)

// examineReads is how often the object is read, to find the shortest round trip.
const examineReads = 3

// examine reads the object. If the look is thorough, it tries whether the store keeps conditions:
// with an object of its own, which it removes.
func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	s := n.store
	if e.Address = s.endpoint; s.client.EndpointURL().Port() != "" {
		e.Address, _, _ = net.SplitHostPort(s.endpoint)
	}
	var snap *snapshot
	for range examineReads {
		before := time.Now()
		var err error
		if snap, err = s.read(ctx); err != nil {
			return err
		}
		trip := time.Since(before)
		if e.RoundTrip == 0 || trip < e.RoundTrip {
			e.RoundTrip = trip
			if snap.state != nil {
				e.Clock = node.ClockReading{Store: time.UnixMicro((snap.clock + coarse/2).Microseconds()),
					Here: before.Add(trip / 2), Within: coarse / 2}
			}
		}
	}
	snap.facts(s.here()).Examine(e, look.MaxTTL)
	if look.Thorough {
		return s.proof.try(ctx)
	}
	return nil
}
