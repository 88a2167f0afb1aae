//go:build !race

// The race detector is slow in bubbles. TestStress is for it.

package shell

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// weather is what the messages of all clients suffer.
type weather struct {
	healed atomic.Bool
	lag    atomic.Int64 // the longest delay on a way
	loss   float64
}

// shaky is a node behind a network and a server that delay and lose. If it is ordered, what a
// client sends keeps its order, and so do the answers.
type shaky struct {
	node    *memnode.Node
	ordered bool
	queues  bool
	*weather

	mu       sync.Mutex
	in, back time.Time
}

func (p *shaky) InOrder() bool { return p.ordered }
func (p *shaky) Queues() bool  { return p.queues }

func (p *shaky) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	done(p.node.Listen(context.Background(), client, func(w string) {
		if p.healed.Load() || rand.Float64() < 0.9 {
			time.AfterFunc(rand.N(time.Millisecond+time.Duration(p.lag.Load())), func() { notify(w) })
		}
	}))
}

// way returns how long a message takes, after the last one on the same way.
func (p *shaky) way(last *time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(200 * time.Microsecond)
	if !p.healed.Load() {
		at = at.Add(rand.N(time.Duration(p.lag.Load()) + 1))
	}
	if p.ordered && at.Before(*last) {
		at = *last
	}
	*last = at.Add(1)
	return time.Until(at)
}

func (p *shaky) Start(_ context.Context, r node.Request, timeout time.Duration, call node.Call) {
	chance := rand.Float64()
	if p.healed.Load() {
		chance = 1
	}
	switch {
	case chance < p.loss/2:
		time.AfterFunc(rand.N(4*timeout), func() { call.Done(node.Answer{}, errors.New("connection reset")) })
		return
	case chance < p.loss:
		return
	}
	time.AfterFunc(p.way(&p.in), func() {
		a, err := p.node.Do(context.Background(), r)
		if chance >= 2*p.loss {
			time.AfterFunc(p.way(&p.back), func() { call.Done(a, err) })
		}
	})
}

// oracle knows who holds what.
type oracle struct {
	t    *testing.T
	mu   sync.Mutex
	held map[string][]*Lock
	last map[string]fence.Token
}

// takes notes that a lock is held now.
func (o *oracle) takes(name string, l *Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.Remaining() > 0 {
		for _, other := range o.held[name] {
			if other.Remaining() > 0 {
				o.t.Errorf("%s is held twice", name)
			}
		}
		if l.Token() <= o.last[name] {
			o.t.Errorf("token %d after %d", l.Token(), o.last[name])
		}
		o.last[name] = l.Token()
	}
	o.held[name] = append(o.held[name], l)
}

// frees notes that it is about to be released.
func (o *oracle) frees(name string, l *Lock) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.held[name] {
		if other == l {
			o.held[name] = append(o.held[name][:i:i], o.held[name][i+1:]...)
			return
		}
	}
}

// Whatever is late or lost, no name has two holders, and tokens grow. Names are free a TTL after
// the end, and nothing stays in memory.
func TestLateAnswersMakeNoSecondHolder(t *testing.T) {
	runs := make([]int, 12)
	for i := range runs {
		runs[i] = i
	}
	bubbles(t, runs, func(t *testing.T, run int) {
		const names, timeout = 4, 500 * time.Millisecond
		ttl := []time.Duration{10 * time.Second, 40 * time.Second}[run/2%2^run/4%2]
		began, w := time.Now(), &weather{loss: []float64{0, 0.01, 0.05}[run%3]}
		var stores []*memnode.Node
		for range []int{3, 5}[run/4%2] {
			stores = append(stores, memnode.New("n"))
		}
		client := func() *Client {
			c := Config{Env: &bubbleEnv{began, time.Hour}, Terms: Terms{TTL: ttl}, NodeTimeout: timeout}
			for _, m := range stores {
				c.Peers = append(c.Peers, &shaky{node: m.Share(), ordered: run%2 == 0, queues: run/2%2 == 0, weather: w})
			}
			return NewClient(c)
		}
		o := oracle{t: t, held: map[string][]*Lock{}, last: map[string]fence.Token{}}
		var clients []*Client
		for range 6 {
			clients = append(clients, client())
		}
		stop := time.Now().Add(90 * time.Second)
		var under sync.WaitGroup
		under.Go(func() {
			for time.Now().Before(stop) {
				w.lag.Store(int64([]time.Duration{0, 0, 300, 900, 2000, 5000}[rand.IntN(6)] * time.Millisecond))
				time.Sleep(rand.N(8 * time.Second))
			}
		})
		for i := range 24 {
			under.Go(func() {
				c := clients[i%len(clients)]
				for time.Now().Before(stop) {
					o.use(c, fmt.Sprint(rand.IntN(names)))
				}
			})
		}
		under.Wait()
		w.healed.Store(true)
		time.Sleep(ttl + 11*time.Second) // what is on the way arrives, and what it leaves ends
		fresh := client()
		for i := range names {
			l := try(fresh, fmt.Sprint(i), fresh.Terms())
			if f := <-l.done; f.Failed() {
				t.Errorf("a name is not free: %+v", f)
				continue
			}
			l.a.Lock().Release(false)
		}
		time.Sleep(40 * ttl)
		for _, c := range append(clients, fresh) {
			g := c.group
			if n := c.Counts(); n != (Counts{}) || g.pacing.more() || g.deadlines.len() > 0 || g.unheard.len() > 0 {
				t.Errorf("left: %+v, others wait for their turn: %v, %d and %d have deadlines", n, g.pacing.more(),
					g.deadlines.len(), g.unheard.len())
			}
			closeNow(t, c)
		}
		time.Sleep(time.Minute)
	})
}

// use takes a lock in one way or the other, and has it for a while.
func (o *oracle) use(c *Client, name string) {
	var l *tellOwner
	if rand.IntN(3) == 0 {
		l = try(c, name, c.Terms())
	} else {
		l = take(c, name)
		defer time.AfterFunc(rand.N(12*time.Second), l.a.Cancel).Stop()
	}
	if f := <-l.done; f.Failed() {
		time.Sleep(rand.N(200 * time.Millisecond))
		return
	}
	o.takes(name, l.a.Lock())
	time.Sleep(rand.N([]time.Duration{10, 300, 6000}[rand.IntN(3)] * time.Millisecond))
	o.frees(name, l.a.Lock())
	l.a.Lock().Release(false)
}
