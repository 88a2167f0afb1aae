package shell

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// pooled is a node that keeps queues, and no order. A release that has a place waits for a
// connection while other requests go on, for no longer than its engine is given.
type pooled struct {
	node  *memnode.Node
	stuck time.Duration
}

func (p *pooled) InOrder() bool { return false }
func (p *pooled) Queues() bool  { return true }

func (p *pooled) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	done(p.node.Listen(context.Background(), client, notify))
}

func (p *pooled) Start(_ context.Context, r node.Request, timeout time.Duration, call node.Call) {
	wait := time.Duration(0)
	switch {
	case r.Op == node.Acquire:
		wait = 50 * time.Millisecond
	case r.Op == node.Release && r.Place.Stamp != 0:
		wait = p.stuck
	}
	if wait > timeout {
		time.AfterFunc(timeout, func() { call.Done(node.Answer{}, node.NotSent(context.DeadlineExceeded)) })
		return
	}
	time.AfterFunc(wait, func() { call.Done(p.node.Do(context.Background(), r)) })
}

// A waiter that gives up during an attempt leaves the queue. The attempt's release, which has its
// place, may be carried out late.
func TestLateReleasesLeaveNoWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, timeout = 20 * time.Second, time.Second
		p := &pooled{node: memnode.New("n"), stuck: 2 * timeout}
		config := Config{Env: &bubbleEnv{time.Now(), time.Hour}, Terms: Terms{TTL: ttl}, NodeTimeout: timeout,
			Peers: []Peer{p}}
		c, other := NewClient(config), NewClient(config)
		holder := take(other, "x")
		holder.held(t)
		waiter := take(c, "x")
		time.Sleep(75 * time.Millisecond) // the first attempt is refused, and the second under way
		waiter.a.Cancel()
		<-waiter.done
		time.Sleep(3 * timeout)
		if first, all, err := p.node.Waiting(t.Context(), "x", 10); err != nil || all > 0 {
			t.Errorf("%v, %d wait, %v; want none", first, all, err)
		}
		if n := c.Counts().Waiters; n > 0 {
			t.Errorf("the client has %d waiters", n)
		}
		holder.a.Lock().Release(false)
		<-holder.freed
		closeNow(t, c)
		closeNow(t, other)
		time.Sleep(time.Minute)
	})
}
