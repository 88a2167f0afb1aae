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

// heldEnv keeps what is to run soon, as a scheduler may, once it is told to.
type heldEnv struct {
	*bubbleEnv
	keeps atomic.Bool
	kept  chan func()
}

func (e *heldEnv) Go(f func()) {
	if e.keeps.Load() {
		e.kept <- f
		return
	}
	e.bubbleEnv.Go(f)
}

// countingPeer answers before Start returns, and counts.
type countingPeer struct {
	*faultyPeer
	sent *atomic.Int32
}

func (p *countingPeer) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	p.sent.Add(1)
	call.Done(p.node.Do(context.Background(), r))
}

// A waiter that was given the lock between its decision to ask and its asking takes it, and asks no
// node.
func TestGivenWhenItIsTimeToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 8 * time.Second
		env := &heldEnv{bubbleEnv: &bubbleEnv{start: time.Now(), epoch: time.Hour}, kept: make(chan func(), 10)}
		var sent [2]atomic.Int32
		var configs [2]Config
		for range 3 {
			n := memnode.New("node")
			for k := range configs {
				p := &faultyPeer{node: n.Share(), sync: true, queues: true,
					listens: func() (time.Duration, error) { return 0, nil }}
				configs[k].Peers = append(configs[k].Peers, &countingPeer{p, &sent[k]})
			}
		}
		configs[0].Env, configs[1].Env = env.bubbleEnv, env
		time.Sleep(time.Second) // a clock that shows 0 is none
		var clients [2]*Client
		for k := range clients {
			configs[k].Terms, configs[k].NodeTimeout = Terms{TTL: ttl}, 100*time.Millisecond
			clients[k] = NewClient(configs[k])
			defer closeNow(t, clients[k])
		}
		var first, second Acquisition
		holder, waiter := newOnceOwner(t), newOnceOwner(t)
		clients[0].Acquire(&first, t.Context(), "orders", clients[0].Terms(), holder)
		<-holder.over
		clients[1].Acquire(&second, t.Context(), "orders", clients[1].Terms(), waiter)
		synctest.Wait()
		env.keeps.Store(true)
		var asks func()
		select {
		case asks = <-env.kept:
		case <-time.After(10 * time.Second):
			t.Fatal("it does not ask again")
		}
		first.Lock().Release(false)
		<-holder.free
		synctest.Wait()
		env.keeps.Store(false)
		before := sent[1].Load()
		asks()
		if f := <-waiter.over; f.Failed() || !second.Lock().Given() {
			t.Errorf("it was not given the lock: %+v", f)
		}
		if n := sent[1].Load() - before; n > 0 {
			t.Errorf("it has sent %d requests", n)
		}
		if early := second.Lock().ticking.early; early > 10*time.Millisecond {
			t.Errorf("its first extension, which is due after 31 ms, may come %v before", early)
		}
		second.Lock().Release(false)
		<-waiter.free
	})
}

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
