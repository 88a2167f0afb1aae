//go:build !race

// The race detector crashes in a bubble of a million goroutines, one after the other. TestStress is
// for it.

package shell

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// serial is a server that carries out one request after the other, each in a fixed time. A client
// that has given up does not hear of its answer, and the server does the work all the same.
type serial struct {
	node *memnode.Node
	cost time.Duration

	mu     sync.Mutex
	busy   time.Time // until then
	served int
}

const wayThere = 300 * time.Microsecond

func (s *serial) InOrder() bool { return false }
func (s *serial) Queues() bool  { return false }

func (s *serial) Listen(string, time.Duration, func(string), func(error)) {}

func (s *serial) Start(_ context.Context, r node.Request, timeout time.Duration, call node.Call) {
	var once sync.Once
	gaveUp := time.AfterFunc(timeout, func() { once.Do(func() { call.Done(node.Answer{}, context.DeadlineExceeded) }) })
	time.AfterFunc(wayThere, func() {
		time.AfterFunc(s.turn(), func() {
			a, err := s.node.Do(context.Background(), r)
			time.AfterFunc(wayThere, func() {
				gaveUp.Stop()
				once.Do(func() { call.Done(a, err) })
			})
		})
	})
}

// turn takes a place behind the others, and returns how long it takes until the request is carried
// out.
func (s *serial) turn() time.Duration {
	s.mu.Lock()
	s.served++
	cost := s.cost
	s.mu.Unlock()
	return s.stall(cost)
}

// stall has nothing else carried out for so long, and returns in which time that is over.
func (s *serial) stall(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.busy.Before(now) {
		s.busy = now
	}
	s.busy = s.busy.Add(d)
	return time.Until(s.busy)
}

// piped is a serial server as a client with a pipeline sees it. One batch is under way, the rest
// waits in the client, and what is not wanted by then is not sent.
type piped struct {
	*serial
	mu      sync.Mutex
	waiting []pipedCall
	running bool
}

type pipedCall struct {
	r    node.Request
	call node.Call
}

func (p *piped) InOrder() bool { return true }

func (p *piped) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, pipedCall{r, call})
	if !p.running {
		p.running = true
		time.AfterFunc(wayThere, p.send)
	}
}

func (p *piped) send() {
	p.mu.Lock()
	batch := p.waiting[:min(len(p.waiting), 64)]
	p.waiting = p.waiting[len(batch):]
	p.running = len(batch) > 0
	p.mu.Unlock()
	var done time.Duration
	var wanted []pipedCall
	for _, c := range batch {
		if c.call.Wanted() {
			done, wanted = p.turn(), append(wanted, c)
		} else {
			c.call.Done(node.Answer{}, node.NotSent(context.DeadlineExceeded))
		}
	}
	if len(batch) == 0 {
		return
	}
	time.AfterFunc(done+wayThere, func() {
		for _, c := range wanted {
			c.call.Done(p.node.Do(context.Background(), c.r))
		}
		p.send()
	})
}

// parted is a server that nothing reaches for a while: there is no answer, or an error at once.
type parted struct {
	*serial
	fails    bool
	from, to time.Time
}

func (p *parted) Start(values context.Context, r node.Request, timeout time.Duration, call node.Call) {
	switch now := time.Now(); {
	case now.Before(p.from) || !now.Before(p.to):
		p.serial.Start(values, r, timeout, call)
	case p.fails:
		time.AfterFunc(wayThere, func() { call.Done(node.Answer{}, errors.New("connection refused")) })
	default:
		time.AfterFunc(timeout, func() { call.Done(node.Answer{}, context.DeadlineExceeded) })
	}
}

// load are servers and the locks that are held by them, of one client each, or of one for all.
type load struct {
	began   time.Time
	ttl     time.Duration
	servers []*serial
	peers   []Peer
	client  *Client // the newest
	owners  []*tellOwner
}

// newLoad has so many locks acquired, over a TTL.
func newLoad(t *testing.T, locks int, ttl time.Duration, as func(*serial) Peer, clients int) *load {
	l := &load{began: time.Now(), ttl: ttl}
	for i := range 5 {
		s := &serial{node: memnode.New(fmt.Sprint(i))}
		l.servers, l.peers = append(l.servers, s), append(l.peers, as(s))
	}
	for i := range locks {
		time.Sleep(time.Until(l.began.Add(ttl * time.Duration(i) / time.Duration(locks))))
		if i < clients {
			l.client = l.newClient()
		}
		o := l.acquire(l.client, fmt.Sprint("name ", i), false)
		if f := <-o.done; f.Failed() {
			t.Fatal(f)
		}
		l.owners = append(l.owners, o)
	}
	return l
}

func (l *load) newClient() *Client {
	return NewClient(Config{Env: &bubbleEnv{l.began, time.Hour}, Peers: l.peers, Terms: Terms{TTL: l.ttl},
		NodeTimeout: l.ttl / 20})
}

// acquire begins an acquisition that waits.
func (l *load) acquire(c *Client, name string, shared bool) *tellOwner {
	o := newTell()
	terms := c.Terms()
	terms.Shared = shared
	c.Acquire(&o.a, context.Background(), name, terms, o)
	return o
}

func (l *load) lost() (n int) {
	for _, o := range l.owners {
		if o.lost.Load() {
			n++
		}
	}
	return n
}

func (l *load) served() (n int) {
	for _, s := range l.servers {
		s.mu.Lock()
		n += s.served
		s.mu.Unlock()
	}
	return n
}

// behind returns for how long the server is busy with what it has that is behind most.
func (l *load) behind() (most time.Duration) {
	for _, s := range l.servers {
		s.mu.Lock()
		most = max(most, time.Until(s.busy))
		s.mu.Unlock()
	}
	return most
}

// costs sets what a request takes.
func (l *load) costs(d time.Duration) {
	for _, s := range l.servers {
		s.mu.Lock()
		s.cost = d
		s.mu.Unlock()
	}
}

// end releases all locks, and waits until nothing is under way.
func (l *load) end() {
	l.costs(0)
	for _, o := range l.owners {
		o.a.Lock().Release(false)
	}
	time.Sleep(time.Minute)
}

// No held lock is lost by a stall of the servers of a quarter of the TTL, however busy they are
// with extensions. Nothing collapses after it: what is asked for does not grow while answers are
// late.
func TestStallsLoseNoLock(t *testing.T) {
	const locks, ttl = 1000, 10 * time.Second
	for _, scene := range []struct {
		use     float64 // of each server, by extensions
		stall   time.Duration
		servers int
		clients int
	}{
		{0.45, 2 * time.Second, 3, locks}, {0.75, 2500 * time.Millisecond, 3, locks},
		{0.75, 2500 * time.Millisecond, 5, locks}, {0.75, 2500 * time.Millisecond, 5, 1},
		{0.9, 2500 * time.Millisecond, 3, locks}, {0.9, 2500 * time.Millisecond, 5, locks},
		{0.75, 2500 * time.Millisecond, 3, 1}, {0.9, 2500 * time.Millisecond, 5, 1},
	} {
		t.Run(fmt.Sprintf("%v%%, %v of %d, %d clients", scene.use*100, scene.stall, scene.servers, scene.clients),
			func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					as := func(s *serial) Peer { return s }
					if scene.clients == 1 {
						as = func(s *serial) Peer { return &piped{serial: s} }
					}
					l := newLoad(t, locks, ttl, as, scene.clients)
					l.costs(time.Duration(scene.use * float64(ttl) / 3 / locks))
					time.Sleep(ttl)
					before := l.served()
					time.Sleep(ttl)
					calm := l.served() - before
					for _, s := range l.servers[:scene.servers] {
						s.stall(scene.stall)
					}
					before = l.served()
					time.Sleep(3 * ttl)
					stalled := float64(l.served()-before) / 3
					t.Logf("lost %d; %d requests in a TTL when calm, %.0f after the stall (%.2f)", l.lost(), calm, stalled,
						stalled/float64(calm))
					if l.lost() > 0 {
						t.Errorf("%d of %d locks are lost", l.lost(), locks)
					}
					if most := 3 * locks * len(l.servers) * 102 / 100; calm > most {
						t.Errorf("%d requests in a TTL when nothing is wrong, at most %d are needed", calm, most)
					}
					if stalled > 1.1*float64(calm) {
						t.Errorf("%.0f requests in a TTL after the stall, %d before", stalled, calm)
					}
					l.end()
				})
			})
	}
}

// A majority that nothing reaches for six tenths of the TTL costs no lock, at whatever moment that
// begins.
func TestPartitionsLoseNoLock(t *testing.T) {
	const locks, ttl = 40, 10 * time.Second
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("errors %v", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var parts []*parted
				l := newLoad(t, locks, ttl, func(s *serial) Peer {
					parts = append(parts, &parted{serial: s, fails: fails})
					return parts[len(parts)-1]
				}, locks) // over a TTL: a part of them at each moment between two extensions
				time.Sleep(ttl)
				for _, p := range parts[:3] {
					p.from = time.Now()
					p.to = p.from.Add(6 * ttl / 10)
				}
				time.Sleep(3 * ttl)
				if lost := l.lost(); lost > 0 {
					t.Errorf("%d of %d locks are lost", lost, locks)
				}
				l.end()
			})
		})
	}
}

// A release that waits in the client for longer than the node timeout is sent all the same, as soon
// as the server is back. Its lease would keep others away.
func TestReleasesAreSentLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(t, 2, 10*time.Second, func(s *serial) Peer { return &piped{serial: s} }, 1)
		for _, s := range l.servers {
			s.stall(2 * l.client.group.NodeTimeout)
		}
		for _, o := range l.owners {
			o.a.Lock().Release(false)
			time.Sleep(10 * wayThere) // the first is sent, the second waits for its answer
		}
		if f := <-l.owners[1].freed; !f.Failed() {
			t.Error("the release was answered at once: the test shows nothing")
		}
		time.Sleep(l.behind() + 100*wayThere)
		for i, s := range l.servers {
			if lease, err := s.node.Inspect(t.Context(), "name 1"); err != nil || lease.Leased {
				t.Errorf("server %d: %+v, %v; want the lease released", i, lease, err)
			}
		}
		l.end()
	})
}
