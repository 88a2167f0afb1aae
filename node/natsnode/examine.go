package natsnode

import (
	"context"
	"net"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// Examine implements node.Examiner. It reads, and writes nothing.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "NATS", Member: n.Member(), Role: "bucket"}
	err := n.Run(ctx, "examine", func(ctx context.Context) error { return n.examine(ctx, look, &e) })
	return e, err
}

func (n *Node) examine(ctx context.Context, look node.Look, e *node.Examination) error {
	c, err := n.link.open(ctx)
	if err != nil {
		return err
	}
	e.Version = c.nc.ConnectedServerVersion()
	e.Address, _, _ = net.SplitHostPort(c.nc.ConnectedAddr())
	err = engine.MeasureTrips(e, func() (time.Time, error) {
		at, err := n.store.keys.Look(ctx)
		return time.Unix(0, int64(at.Clock)), err
	})
	if err != nil {
		return err
	}
	f, err := n.store.Facts(ctx)
	if err != nil {
		return err
	}
	f.Examine(e, look.MaxTTL)
	info, err := n.store.keys.info(ctx)
	if err != nil {
		return err
	}
	if info.Config.Replicas == 1 {
		e.Findings = append(e.Findings, node.Found("standalone", node.Note,
			"One server has the bucket: no lock can be taken while it is down."))
	}
	if info.Cluster == nil {
		return nil
	}
	for _, peer := range info.Cluster.Replicas {
		if peer.Offline || !peer.Current {
			e.Findings = append(e.Findings, node.Found("server", node.Warning,
				"The server %q is down, or behind the others.", peer.Name).
				Do("Look at that machine; the others carry the locks as long as they are a majority."))
		}
	}
	return nil
}
