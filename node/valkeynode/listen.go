package valkeynode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/valkey-io/valkey-go"
)

// wakePrefix and a client's identity are the channel on which its waiters are
// called. scripts/line.lua has it too.
const wakePrefix = "fenlock-wake:"

// How long a subscription that failed is not tried again: twice as long after
// each failure, give or take a quarter.
const (
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// Listen implements node.Queuer by a subscription on the node's one
// connection. An error of the first attempt to subscribe is returned at once,
// whatever ctx allows.
func (n *Node) Listen(ctx context.Context, client string, event func(waiter string)) error {
	if err := rule.CheckPlace(node.Place{Waiter: client + ":0"}); err != nil {
		return n.fail(fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	l := &listening{node: n, client: client, event: event, first: make(chan error, 1)}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return n.fail(errClosed)
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	n.deafen = append(n.deafen, end)
	n.tasks.Add(1)
	n.mu.Unlock()
	go func() {
		defer n.tasks.Done()
		l.run(life)
	}()
	select {
	case err := <-l.first:
		return n.fail(err)
	case <-ctx.Done():
	}
	return n.fail(l.giveUp(ctx.Err()))
}

// listening is the subscription to the calls of a client's waiters.
type listening struct {
	node   *Node
	client string
	event  func(waiter string)

	mu       sync.Mutex
	returned bool       // Listen has its answer: from now on there are events
	first    chan error // the answer
}

// run subscribes, again and again, until ctx is done.
func (l *listening) run(ctx context.Context) {
	wait, known := minRelisten, ""
	for {
		subscribed, err := l.receive(ctx)
		if ctx.Err() != nil {
			l.answer(errClosed)
			return
		}
		if subscribed {
			wait, known = minRelisten, ""
		}
		err = l.explain(err)
		// Each reason once: warn forgets one when another comes in between.
		if !l.answer(err) && errors.Is(err, node.ErrMisconfigured) && err.Error() != known {
			l.node.warn(err.Error())
		}
		known = err.Error()
		select {
		case <-time.After(time.Duration((0.75 + rand.Float64()/2) * float64(wait))):
		case <-ctx.Done():
		}
		wait = min(2*wait, maxRelisten)
	}
}

// receive subscribes once, and returns when that has failed or the connection
// is lost. The connection serves the node's requests meanwhile: in RESP3, which
// all servers speak that can be a node, messages are told from replies.
func (l *listening) receive(ctx context.Context) (subscribed bool, _ error) {
	n := l.node
	// Until it is confirmed, the request is in the library's ring.
	if err := n.slots.take(ctx); err != nil {
		return false, err
	}
	giveBack := sync.OnceFunc(func() { n.slots.giveBack(context.Background()) })
	defer giveBack()
	var confirmed atomic.Bool
	// This runs between two replies, so it must not block.
	confirm := func(s valkey.PubSubSubscription) {
		if s.Kind != "subscribe" {
			return
		}
		giveBack()
		confirmed.Store(true)
		if !l.answer(nil) {
			l.event("")
		}
	}
	command := n.client.B().Subscribe().Channel(wakePrefix + l.client).Build()
	err := n.client.Receive(valkey.WithOnSubscriptionHook(ctx, confirm), command, func(m valkey.PubSubMessage) {
		waiter := l.client + ":" + m.Message
		if rule.CheckPlace(node.Place{Waiter: waiter}) == nil {
			l.event(waiter)
		}
	})
	return confirmed.Load(), err
}

// answer gives Listen its answer, unless it has one.
func (l *listening) answer(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.returned {
		return false
	}
	l.returned = true
	l.first <- err
	return true
}

// giveUp ends Listen without an answer, unless there is one in the last moment.
func (l *listening) giveUp(why error) error {
	if l.answer(why) {
		return why
	}
	return <-l.first
}

// explain makes an error of a subscription fit for people.
func (l *listening) explain(err error) error {
	if err == nil {
		return errors.New("the subscription has ended")
	}
	reply, ok := valkey.IsValkeyErr(err)
	if ok && strings.HasPrefix(reply.Error(), "NOPERM") {
		err = misconfigured("the server's ACL does not let this user be called when a lock is free: it needs +subscribe and &%s* (%s)", wakePrefix, reply)
	}
	return l.node.describe(err)
}
