package natsnode

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// scanKey is the key that a scan writes to, nothing of use.
const scanKey = "scan"

// scanTimeout bounds a scan: a server that is not the leader any more may never see the write.
const scanTimeout = 5 * time.Second

// batch is how many records a scan asks for at once.
const batch = 256

// scan returns all records by stripe, each at least as new as when scan was called. A read may be
// answered by a server that is not the leader any more. So it writes first, and reads from one
// server, in the order of the revisions, until it has seen that write.
func (n *Node) scan(ctx context.Context) (map[int]*record, error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	ack, err := n.js.Publish(ctx, n.config.subject(scanKey), []byte(format), jetstream.WithRetryAttempts(0))
	if err != nil {
		return nil, err
	}
	c, err := n.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: n.config.subject(">"), DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, AckPolicy: jetstream.AckNonePolicy,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: 2 * scanTimeout, // for when it cannot be deleted
	})
	if err != nil {
		return nil, err
	}
	defer n.stream.DeleteConsumer(ctx, c.CachedInfo().Name)
	records := map[int]*record{}
	for seen := uint64(0); ; {
		some, err := c.Fetch(batch, jetstream.FetchContext(ctx))
		if err != nil {
			return nil, err
		}
		for msg := range some.Messages() {
			about, err := msg.Metadata()
			if err != nil {
				return nil, err
			}
			if seen++; about.Sequence.Consumer != seen {
				return nil, errors.New("a record was lost on the way")
			}
			if stripe, ours := n.config.stripe(msg.Subject()); ours {
				r := &record{stripe: stripe, revision: about.Sequence.Stream}
				if err := decode(msg.Subject(), msg.Data(), r); err != nil {
					return nil, err
				}
				records[stripe] = r
			}
			if about.Sequence.Stream >= ack.Sequence && about.NumPending == 0 {
				return records, nil
			}
		}
		if err := errors.Join(some.Error(), ctx.Err()); err != nil {
			return nil, err
		}
	}
}
