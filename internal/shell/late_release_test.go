package shell

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// selfTimed is a node whose engine ends a release by its own limit while it is deaf. That is a
// moment before the client does, or after it.
type selfTimed struct {
	*memnode.Node
	ordered  bool
	slow     time.Duration // what an acquire takes
	mu       sync.Mutex
	deaf     bool
	limit    time.Duration
	releases []time.Time
}

func (p *selfTimed) InOrder() bool { return p.ordered }
func (p *selfTimed) Queues() bool  { return false }

func (p *selfTimed) Listen(string, time.Duration, func(string), func(error)) {}

func (p *selfTimed) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Op == node.Release {
		p.releases = append(p.releases, time.Now())
		if p.deaf {
			time.AfterFunc(p.limit, func() { call.Done(node.Answer{}, context.DeadlineExceeded) })
			return
		}
	}
	took := time.Duration(0)
	if r.Op == node.Acquire {
		took = p.slow
	}
	time.AfterFunc(took, func() { call.Done(p.Node.Do(context.Background(), r)) })
}

func (p *selfTimed) deafen(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// A release that the engine has ended is not answered any more: it is repeated soon.
func TestReleasesEndedByTheEngineAreRepeated(t *testing.T) {
	bubbles(t, []time.Duration{-time.Microsecond, time.Microsecond}, func(t *testing.T, later time.Duration) {
		const ttl = 12 * time.Second
		config := Config{Env: &bubbleEnv{time.Now(), time.Hour}, Terms: Terms{TTL: ttl}, NodeTimeout: ttl / 20}
		var nodes []*selfTimed
		for range 3 {
			nodes = append(nodes, &selfTimed{Node: memnode.New("n"), limit: config.NodeTimeout + later})
			config.Peers = append(config.Peers, nodes[len(nodes)-1])
		}
		c := NewClient(config)
		o := take(c, "x")
		o.held(t)
		nodes[0].deafen(true)
		began := time.Now()
		o.a.Lock().Release(false)
		<-o.freed
		time.Sleep(time.Second)
		nodes[0].deafen(false)
		time.Sleep(2 * ttl)
		nodes[0].mu.Lock()
		defer nodes[0].mu.Unlock()
		if n := len(nodes[0].releases); n < 2 || nodes[0].releases[1].Sub(began) > ttl/3 {
			t.Errorf("%d releases, at %v", n, nodes[0].releases)
		}
		closeNow(t, c)
		time.Sleep(time.Minute)
	})
}

// A release that the engine has ended frees nothing, also where requests keep their order: what the
// node grants after that is released at once.
func TestGrantsAfterAReleaseThatEndedAreReleased(t *testing.T) {
	bubbles(t, []bool{false, true}, func(t *testing.T, ordered bool) {
		const ttl, timeout = 12 * time.Second, 600 * time.Millisecond
		config := Config{Env: &bubbleEnv{time.Now(), time.Hour}, Terms: Terms{TTL: ttl}, NodeTimeout: timeout}
		n := &selfTimed{Node: memnode.New("n"), ordered: ordered, slow: 300 * time.Millisecond, deaf: true,
			limit: 100 * time.Millisecond}
		config.Peers = []Peer{n}
		c := NewClient(config)
		o := take(c, "x")
		time.Sleep(50 * time.Millisecond)
		o.a.Cancel() // which sends a release that ends before the grant comes
		<-o.done
		time.Sleep(150 * time.Millisecond)
		n.deafen(false)
		time.Sleep(200 * time.Millisecond)
		if l, err := n.Inspect(context.Background(), "x"); err != nil || l.Leased {
			t.Errorf("%+v, %v", l, err)
		}
		closeNow(t, c)
		time.Sleep(time.Minute)
	})
}

// Where leases are bound, the node timeout may be longer than the TTL. A release is waited for as
// long also while the node is behind.
func TestReleasesOfBoundLeasesHaveTheNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, timeout = time.Second, time.Minute
		n := &selfTimed{Node: memnode.New("n"), deaf: true, limit: timeout / 2}
		c := NewClient(Config{Env: &bubbleEnv{time.Now(), time.Hour}, Terms: Terms{TTL: ttl}, NodeTimeout: timeout,
			Bound: true, Peers: []Peer{n}})
		o := take(c, "x")
		o.held(t)
		c.group.pacing.behind.Store(true)
		began := time.Now()
		o.a.Lock().Release(false)
		if <-o.freed; time.Since(began) != n.limit {
			t.Errorf("it was given up after %v", time.Since(began))
		}
		closeNow(t, c)
		time.Sleep(time.Hour)
	})
}

// A release that a partition has swallowed is repeated in a sixth of the TTL, and at once if the
// node answers anything else.
func TestReleasesLostInAPartitionAreRepeated(t *testing.T) {
	bubbles(t, []bool{false, true}, func(t *testing.T, asks bool) {
		const ttl = 30 * time.Second
		h := newHiccups(t, 3, false)
		a, b := h.client(ttl, time.Second), h.client(ttl, time.Second)
		first := take(a, "x")
		first.held(t)
		h.dead(true, 3)
		first.a.Lock().Release(false)
		time.Sleep(1100 * time.Millisecond)
		h.dead(false, 3)
		most := ttl / 5
		if asks {
			most = time.Second
			o := take(a, "another")
			o.held(t)
			o.a.Lock().Release(false)
		}
		o := take(b, "x")
		if took := o.held(t); took > most {
			t.Errorf("free %v after the partition", took)
		}
		o.a.Lock().Release(false)
		time.Sleep(time.Minute)
		h.end(a, b)
	})
}

// What is waited for after its time is up ends with Close, also if that comes at the same moment.
func TestCloseWhileTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		h.dead(true, 3)
		env := &hookedEnv{bubbleEnv: &bubbleEnv{h.began, time.Hour}}
		c := NewClient(Config{Env: env, Peers: h.peers, Terms: Terms{TTL: 10 * time.Second},
			NodeTimeout: 500 * time.Millisecond})
		o := take(c, "x")
		time.Sleep(499 * time.Millisecond)
		began, idle, closed := time.Now(), make(chan struct{}), false
		closes := func() { // the last reading of the clock is behind the question whether it is closed
			if !closed && c.group.inflight.len() == 0 {
				closed = true
				c.Close(func() { close(idle) })
			}
		}
		env.now.Store(&closes)
		<-o.done
		<-idle
		if took := time.Since(began); took > 600*time.Millisecond {
			t.Errorf("the acquisition ended %v later", took)
		}
		env.now.Store(nil)
		time.Sleep(time.Minute)
	})
}

// hookedEnv calls a function at each reading of a clock, if there is one.
type hookedEnv struct {
	*bubbleEnv
	now, wall atomic.Pointer[func()]
}

func (e *hookedEnv) Now() time.Duration {
	if hook := e.now.Load(); hook != nil {
		(*hook)()
	}
	return e.bubbleEnv.Now()
}

func (e *hookedEnv) WallMicros() int64 {
	if hook := e.wall.Load(); hook != nil {
		(*hook)()
	}
	return e.bubbleEnv.WallMicros()
}

// One silent node of three makes a client neither slow nor behind, and leaves nothing in memory for
// longer than the node timeout.
func TestOneSilentNodeCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, timeout = 30 * time.Second, time.Second
		h := newHiccups(t, 3, true)
		c := h.client(ttl, timeout)
		h.dead(true, 1)
		for i := range 2000 {
			o := take(c, fmt.Sprint(i%3))
			if took := o.held(t); took > 10*time.Millisecond {
				t.Fatal(i, took)
			}
			o.a.Lock().Release(false)
			time.Sleep(5 * time.Millisecond)
		}
		if n := c.group.unheard.len(); n > 0 {
			t.Errorf("late answers of %d requests are waited for", n)
		}
		if n, most := c.group.deadlines.len(), int(2*timeout/(5*time.Millisecond)); n > most {
			t.Errorf("%d requests have a deadline, at most %d are under way", n, most)
		}
		h.end(c)
	})
}

func (d *deadlines) len() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := d.first; e != nil; e = e.next {
		n++
	}
	return n
}

// An adoption that is given up before it has sent anything is not an attempt that has ended. Others
// would be counted as one fewer than are under way, and wait for their turn in vain.
func TestAdoptionsGivenUpAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		env := &hookedEnv{bubbleEnv: &bubbleEnv{h.began, time.Hour}}
		c := NewClient(Config{Env: env, Peers: h.peers, Terms: Terms{TTL: 10 * time.Second},
			NodeTimeout: 500 * time.Millisecond})
		adopts := newTell()
		cancel := adopts.a.Cancel
		env.wall.Store(&cancel)
		c.Adopt(&adopts.a, context.Background(), "x", &Exported{Holder: "h", Terms: c.Terms()}, adopts)
		env.wall.Store(nil)
		if f := <-adopts.done; !f.Failed() {
			t.Error("it has succeeded")
		}
		h.dead(true, 3)
		o := take(c, "x")
		time.Sleep(3 * time.Second)
		h.dead(false, 3)
		if took := o.held(t); took > time.Second {
			t.Errorf("%v after the outage", took)
		}
		o.a.Lock().Release(false)
		time.Sleep(time.Minute)
		h.end(c)
	})
}

// What is waited for after its time is up ends with Close.
func TestCloseWhileLateAnswersAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		h.dead(true, 3)
		c := h.client(10*time.Second, 500*time.Millisecond)
		o := take(c, "x")
		time.Sleep(600 * time.Millisecond)
		if n := c.group.unheard.len(); n != 1 {
			t.Fatalf("the late answers of %d requests are waited for", n)
		}
		began := time.Now()
		idle := make(chan struct{})
		c.Close(func() { close(idle) })
		<-o.done
		if took := time.Since(began); took > 0 {
			t.Errorf("the acquisition ended %v later", took)
		}
		<-idle
		if n := c.group.unheard.len(); n > 0 {
			t.Errorf("the late answers of %d requests are waited for", n)
		}
		time.Sleep(time.Minute)
	})
}
