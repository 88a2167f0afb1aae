package shell

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// hiccup is a node that keeps requests in order. While it is stopped, it carries out nothing, and
// then all that came. While it is dead, what comes is lost.
type hiccup struct {
	node    *memnode.Node
	latency atomic.Int64
	dead    atomic.Bool
	asked   atomic.Int64
	queues  bool

	mu   sync.Mutex
	last time.Time // answers keep their order
	till time.Time // stopped until then
}

func (p *hiccup) InOrder() bool { return true }
func (p *hiccup) Queues() bool  { return p.queues }

func (p *hiccup) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	done(p.node.Listen(context.Background(), client, notify))
}

func (p *hiccup) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	p.asked.Add(1)
	if p.dead.Load() {
		return
	}
	p.mu.Lock()
	at := time.Now()
	if at.Before(p.till) {
		at = p.till
	}
	if at = at.Add(time.Duration(p.latency.Load()) / 2); at.Before(p.last) {
		at = p.last
	}
	p.last = at.Add(1)
	p.mu.Unlock()
	time.AfterFunc(time.Until(at), func() {
		a, err := p.node.Do(context.Background(), r)
		time.AfterFunc(time.Duration(p.latency.Load())/2, func() { call.Done(a, err) })
	})
}

func (p *hiccup) stop(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.till = time.Now().Add(d)
}

// hiccups are such nodes, which answer in a millisecond.
type hiccups struct {
	t     *testing.T
	began time.Time
	nodes []*hiccup
	peers []Peer
}

func newHiccups(t *testing.T, n int, queues bool) *hiccups {
	h := &hiccups{t: t, began: time.Now()}
	for i := range n {
		p := &hiccup{node: memnode.New(fmt.Sprint(i)), queues: queues}
		p.latency.Store(int64(time.Millisecond))
		h.nodes, h.peers = append(h.nodes, p), append(h.peers, p)
	}
	return h
}

func (h *hiccups) client(ttl, timeout time.Duration) *Client {
	return NewClient(Config{Env: &bubbleEnv{h.began, time.Hour}, Peers: h.peers, Terms: Terms{TTL: ttl},
		NodeTimeout: timeout})
}

// dead has some of the nodes be dead, or not.
func (h *hiccups) dead(dead bool, n int) {
	for _, p := range h.nodes[:n] {
		p.dead.Store(dead)
	}
}

// end closes clients, and waits until nothing is under way.
func (h *hiccups) end(cs ...*Client) {
	h.dead(false, len(h.nodes))
	for _, c := range cs {
		closeNow(h.t, c)
	}
	time.Sleep(time.Minute)
}

// tellOwner counts what it is told.
type tellOwner struct {
	a           Acquisition
	done, freed chan Failure
	told        atomic.Int32
	lost        atomic.Bool // the lock has ended, and was not released
}

func (o *tellOwner) Waiting(*Failure)                { o.told.Add(1) }
func (o *tellOwner) Held(fence.Token, bool)          {}
func (o *tellOwner) Extended(time.Duration, Failure) {}
func (o *tellOwner) Done(f Failure)                  { o.done <- f }
func (o *tellOwner) Ended(why Failure, _ time.Duration) {
	o.lost.Store(why.Reason != core.LetGo)
}
func (o *tellOwner) Freed(f Failure) { o.freed <- f }

func newTell() *tellOwner {
	return &tellOwner{done: make(chan Failure, 1), freed: make(chan Failure, 1)}
}

// take begins an acquisition that waits.
func take(c *Client, name string) *tellOwner {
	o := newTell()
	c.Acquire(&o.a, context.Background(), name, c.Terms(), o)
	return o
}

// try begins one that does not.
func try(c *Client, name string, terms Terms) *tellOwner {
	o := newTell()
	c.TryAcquire(&o.a, context.Background(), name, terms, o)
	return o
}

// held waits until it is, and returns how long that has taken.
func (o *tellOwner) held(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if f := <-o.done; f.Failed() {
		t.Fatalf("%+v", f)
	}
	return time.Since(began)
}

// bubbles runs a test in a bubble of its own for each case.
func bubbles[T any](t *testing.T, cases []T, f func(*testing.T, T)) {
	for _, c := range cases {
		t.Run(fmt.Sprint(c), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, c) }) })
	}
}
