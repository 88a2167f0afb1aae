package goredisnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// pingInterval is how often a subscription that says nothing is asked whether it is there. With
// many that are idle, being asked is most of what they cost. A waiter looks again by itself, sooner
// than that.
const pingInterval = 5 * time.Second

var errSilent = errors.New("the subscription is silent")

// Subscribe implements resp.Link, on a connection of its own beside the client's pool.
func (l *link) Subscribe(ctx context.Context, channel string, confirmed func(), message func(string)) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// As for replies: what panics there is an error here.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the server broke the protocol, so the subscription was closed: %v", r)
		}
	}()
	client, left, err := l.lead(ctx)
	if err != nil {
		return l.explain(err)
	}
	defer context.AfterFunc(left, func() { cancel(context.Cause(left)) })()
	subscription := client.Subscribe(ctx)
	defer subscription.Close()
	// The client notices neither that a context is cancelled nor that a server hangs.
	defer context.AfterFunc(ctx, func() { subscription.Close() })()
	silent := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silent.Stop()
	if err := subscription.Subscribe(ctx, channel); err != nil {
		return because(ctx, err)
	}
	go ping(ctx, subscription)
	subscribed := false
	for {
		received, err := subscription.Receive(ctx)
		if err != nil {
			err = because(ctx, err)
			// A user that may not ask whether it is there is told so, which is an answer.
			if _, said := resp.IsError(err); !said || !subscribed {
				return err
			}
		}
		silent.Reset(patience + pingInterval)
		switch m := received.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				subscribed = true
				confirmed()
			}
		case *redis.Message:
			message(m.Payload)
		}
	}
}

func ping(ctx context.Context, subscription *redis.PubSub) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if subscription.Ping(ctx) != nil {
				return // so that it falls silent
			}
		}
	}
}

// because returns why a context has ended, or else the error.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errorOf(err)
}
