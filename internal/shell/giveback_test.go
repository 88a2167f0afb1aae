package shell

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// slowly is a node in memory that carries out some requests late, and whose answers may be lost.
type slowly struct {
	node *memnode.Node
	way  func(r node.Request) (there time.Duration, lost bool)
}

func (p *slowly) InOrder() bool { return false }
func (p *slowly) Queues() bool  { return true }
func (p *slowly) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	there, lost := p.way(r)
	time.AfterFunc(there, func() {
		a, err := p.node.Do(context.Background(), r)
		if !lost {
			time.AfterFunc(time.Millisecond, func() { call.Done(a, err) })
		}
	})
}

func (p *slowly) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	done(p.node.Listen(context.Background(), client,
		func(w string) { time.AfterFunc(time.Millisecond, func() { notify(w) }) }))
}

// What goes back to a node comes there later than the node timeout, while what was given lasts
// still. The waiter hears of the late answer, and has the name soon after.
func TestGiftThatGoesBackLate(t *testing.T) {
	for _, late := range []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond,
		600 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			n := memnode.New("node")
			var loses atomic.Bool
			var back time.Time // when the node has heard of it
			plain := func(node.Request) (time.Duration, bool) { return time.Millisecond, false }
			way := func(r node.Request) (time.Duration, bool) {
				switch {
				case r.Name != "orders":
				case r.Op == node.Acquire && loses.CompareAndSwap(true, false):
					return time.Millisecond, true
				case r.Op == node.Release && r.Place.Waiter != "" && r.Holder.GivenTo(r.Place.Waiter):
					back = time.Now().Add(late)
					return late, false
				}
				return time.Millisecond, false
			}
			time.Sleep(time.Second)
			var clients [2]*Client
			for k, w := range []func(node.Request) (time.Duration, bool){plain, way} {
				clients[k] = NewClient(Config{Env: &bubbleEnv{time.Now(), time.Hour}, Terms: Terms{TTL: 8 * time.Second},
					NodeTimeout: 100 * time.Millisecond, Peers: []Peer{&slowly{n.Share(), w}}})
				defer closeNow(t, clients[k])
			}
			take := func(c *Client, name string) (*Acquisition, *onceOwner) {
				a, o := new(Acquisition), newOnceOwner(t)
				c.Acquire(a, context.Background(), name, c.Terms(), o)
				return a, o
			}
			pass := func(name string, wait time.Duration) *Acquisition {
				first, holder := take(clients[0], name)
				<-holder.over
				second, waiter := take(clients[1], name)
				time.Sleep(wait)
				first.Lock().Release(false)
				<-holder.free
				<-waiter.over
				return second
			}
			pass("warm", time.Second).Lock().Release(false) // it listens
			time.Sleep(time.Second)
			loses.Store(true)
			a := pass("orders", 105*time.Millisecond)
			if back.IsZero() || time.Since(back) > 5*time.Millisecond {
				t.Errorf("back after %v: the waiter has the name %v later", late, time.Since(back))
			}
			a.Lock().Release(false)
			time.Sleep(time.Second)
		})
	}
}
