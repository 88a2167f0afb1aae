package natsnode

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// A client that listens subscribes to a subject of its own. The client that saves a record
// publishes the record's notices, after the bucket has acknowledged it. Publishing the notices with
// the write would also tell of writes that the bucket refuses. A notice that is lost, as with the
// process that has saved, costs the waiter a moment: it asks again.

// store is a cas.Teller in a bucket.
type store struct {
	cas.Store
	keys keys
}

// notices is the subject of a client that listens.
func (k keys) notices(client string) string { return k.own("notices." + client) }

// Save implements cas.Store.
func (s store) Save(ctx context.Context, stripe int, r cas.Record, over cas.Loaded) (cas.Loaded, error) {
	saved, err := s.Store.Save(ctx, stripe, r, over)
	if err != nil || len(r.Fresh) == 0 {
		return saved, err
	}
	if c, err := s.keys.open(ctx); err == nil {
		for _, notice := range r.Fresh {
			c.nc.Publish(s.keys.notices(engine.ClientOf(notice)), []byte(notice))
		}
	}
	return saved, nil
}

// Attend implements cas.Teller.
func (s store) Attend(ctx context.Context, h *cas.Hearing) error {
	c, err := s.keys.open(ctx)
	if err != nil {
		return err
	}
	subject := s.keys.notices(h.Client())
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	begin, cancel := context.WithTimeout(ctx, attendTimeout)
	err = c.nc.FlushWithContext(begin) // the server knows of it then
	cancel()
	if err != nil {
		return err
	}
	msg, err := sub.NextMsg(time.Microsecond)
	if !errors.Is(err, nats.ErrPermissionViolation) {
		h.Begun(0)
	}
	for ; ; msg, err = sub.NextMsgWithContext(ctx) {
		switch {
		case errors.Is(err, nats.ErrTimeout):
		case errors.Is(err, nats.ErrSlowConsumer):
			h.Tell("")
		case err != nil:
			return err
		case msg.Reply != "":
			msg.Respond(nil) // to Reachable
		default:
			h.Tell(string(msg.Data))
		}
	}
}

const (
	attendTimeout = 5 * time.Second
	// probeTimeout bounds the question whether a client listens. A client that stands still is
	// subscribed, and does not answer.
	probeTimeout = 200 * time.Millisecond
)

// Reachable implements cas.Teller. A server says at once that no client is subscribed.
func (s store) Reachable(ctx context.Context, _ cas.Loaded, client string) (bool, error) {
	if rule.CheckClient(client) != nil {
		return false, nil
	}
	c, err := s.keys.open(ctx)
	if err != nil {
		return false, cas.Again(err)
	}
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	probe, over := c.asks(probe, s.keys.notices(client))
	defer over()
	switch _, err := c.nc.RequestWithContext(probe, s.keys.notices(client), nil); {
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	case err == nil, errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return true, nil
	default:
		return false, c.explain(err, s.keys.notices(client))
	}
}
