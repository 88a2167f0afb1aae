package zknode

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// sweepSize is how many queues a client that begins to listen looks at.
const sweepSize = 64

// sweepAge is how long a queue has been forgotten before it is removed: servers' clocks differ.
const sweepAge = time.Minute

// sweep removes some queues that are forgotten. A client that asks for a name removes what is left
// of its queue; the queue of a name that no client asks for any more would stay for ever.
func (n *Node) sweep(ctx context.Context, link *session.Link) {
	now, known := n.clock.now(link)
	if !known {
		return
	}
	replies, err := link.Do(ctx, wire.Children{Path: n.paths.queues()})
	if err != nil || len(replies[0].Children) == 0 {
		return
	}
	all := replies[0].Children
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, part := range all[:min(sweepSize, len(all))] {
		path := n.paths.queues() + "/" + part
		replies, err := link.Do(ctx, wire.Get{Path: path})
		if err != nil {
			return
		}
		if replies[0].Err != wire.OK {
			continue
		}
		record, err := parseQueue(replies[0].Data)
		if err == nil && now > max(record.renewed+rule.QueueExpiry, record.until)+sweepAge {
			link.Do(ctx, wire.Delete{Path: path, Version: replies[0].Stat.Version})
		}
	}
}
