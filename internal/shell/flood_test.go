//go:build !race

package shell

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// alone is a serial server as a small client sees it, whose requests travel one by one. They keep
// their order, and answers are heard however late.
type alone struct{ *serial }

func (p *alone) InOrder() bool { return true }
func (p *alone) Queues() bool  { return true }

func (p *alone) Listen(client string, _ time.Duration, notify func(string), done func(error)) {
	time.AfterFunc(2*wayThere, func() { done(p.node.Listen(context.Background(), client, notify)) })
}

func (p *alone) Start(_ context.Context, r node.Request, _ time.Duration, call node.Call) {
	time.AfterFunc(wayThere, func() {
		time.AfterFunc(p.turn(), func() {
			a, err := p.node.Do(context.Background(), r)
			time.AfterFunc(wayThere, func() { call.Done(a, err) })
		})
	})
}

// flood is new acquisitions, each of a name of its own, by some clients in turn. Or it is single
// attempts.
type flood struct {
	load    *load
	tries   bool
	clients []*Client
	came    int
	got     atomic.Int64 // acquired, and released
	under   sync.WaitGroup
}

const (
	givesUp   = 10 * time.Second // for how long a caller of a flood waits
	floodHeld = 60               // locks
	floodTTL  = 10 * time.Second
	floodCost = 10 * time.Millisecond
	// floodMost is how many locks a second the servers can carry out beside those that are held.
	floodMost = (1 - 3*floodHeld*float64(floodCost)/float64(floodTTL)) / 2 * float64(time.Second/floodCost)
)

// newFlood returns one of small clients, or of one that sends batches, beside locks that are held.
func newFlood(t *testing.T, clients int, tries bool) *flood {
	as, holders := func(s *serial) Peer { return &alone{s} }, floodHeld
	if clients == 1 {
		as, holders = func(s *serial) Peer { return &piped{serial: s} }, 1
	}
	f := &flood{load: newLoad(t, floodHeld, floodTTL, as, holders), tries: tries}
	f.load.costs(floodCost)
	f.clients = append(f.clients, f.load.client)
	for len(f.clients) < clients {
		f.clients = append(f.clients, f.load.newClient())
	}
	time.Sleep(floodTTL)
	return f
}

// come has acquisitions come at a rate, for a time, and returns how many locks a second there were.
func (f *flood) come(rate float64, d time.Duration) float64 {
	began, before := time.Now(), f.got.Load()
	for {
		time.Sleep(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		if time.Since(began) >= d {
			return float64(f.got.Load()-before) / time.Since(began).Seconds()
		}
		f.came++
		c, name := f.clients[f.came%len(f.clients)], fmt.Sprint("new ", f.came)
		begin := take
		if f.tries {
			begin = func(c *Client, name string) *tellOwner { return try(c, name, c.Terms()) }
		}
		o := begin(c, name)
		gaveUp := time.AfterFunc(givesUp, o.a.Cancel)
		f.under.Go(func() {
			failure := <-o.done
			gaveUp.Stop()
			if failure.Failed() {
				return
			}
			o.a.Lock().Release(false)
			if failure = <-o.freed; !failure.Failed() {
				f.got.Add(1)
			}
		})
	}
}

// New acquisitions far beyond what the servers can carry out take no held lock. About as many of
// them succeed as at capacity. The servers are not behind when a TTL has passed since the last
// caller gave up.
func TestFloods(t *testing.T) {
	const held, ttl, most = floodHeld, floodTTL, floodMost
	for _, scene := range []struct {
		clients int
		times   float64 // what comes, of what the servers can carry out
	}{{100, 2}, {100, 4}, {1, 2}, {1, 4}} {
		t.Run(fmt.Sprintf("%d clients, %v times", scene.clients, scene.times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlood(t, scene.clients, false)
				l := f.load
				before, came := l.served(), f.came
				f.come(most/2, 2*ttl)
				time.Sleep(time.Second)
				// An acquire and a release, and the extensions. Small clients listen once.
				asked := float64(l.served()-before)/5/float64(f.came-came) - float64(3*held)*2.1/float64(f.came-came)
				peak := 0.0
				for _, part := range []float64{0.8, 0.9, 1} {
					f.come(part*most, ttl/2)
					peak = max(peak, f.come(part*most, 2*ttl))
					time.Sleep(ttl)
				}
				f.come(most/2, ttl)
				good := f.come(scene.times*most, 3*ttl)
				lost := l.lost()
				f.come(most/2, givesUp+ttl)
				behind, after := l.behind(), f.come(most/2, ttl)/(most/2)
				t.Logf("%.2f requests each when calm; %.1f/s at most, then %.1f/s (%.0f%%), lost %d; behind %v after it, "+
					"%.0f%% of what came", asked, peak, good, 100*good/peak, lost, behind, 100*after)
				if lost = l.lost(); lost > 0 {
					t.Errorf("%d of %d locks are lost", lost, held)
				}
				if asked > 2.1 {
					t.Errorf("%.2f requests for a lock when nothing is wrong", asked)
				}
				if good < 0.8*peak {
					t.Errorf("%.1f locks a second under the load, %.1f before", good, peak)
				}
				if behind > ttl/10 || after < 0.7 {
					t.Errorf("behind %v after the load, and of what comes, %.0f%% succeeds", behind, 100*after)
				}
				f.under.Wait()
				l.end()
			})
		})
	}
}

// Single attempts far beyond what the servers can carry out take no held lock, and do not leave the
// servers behind.
func TestFloodsOfTries(t *testing.T) {
	const held, ttl, most = floodHeld, floodTTL, floodMost
	for _, clients := range []int{100, 1} {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFlood(t, clients, true)
				l := f.load
				before := f.come(0.8*most, 2*ttl)
				during := f.come(2*most, 3*ttl)
				f.come(most/2, ttl)
				behind, after := l.behind(), f.come(most/2, ttl)/(most/2)
				t.Logf("%.1f/s, then %.1f/s, lost %d; behind %v after it, %.0f%% of what came", before, during, l.lost(), behind,
					100*after)
				if l.lost() > 0 {
					t.Errorf("%d of %d locks are lost", l.lost(), held)
				}
				if behind > ttl/10 || after < 0.7 {
					t.Errorf("behind %v after the load, and of what comes, %.0f%% succeeds", behind, 100*after)
				}
				f.under.Wait()
				l.end()
			})
		})
	}
}

// A node that is far behind is not asked again for what it will do anyway. That is so for a lock
// that was held and released before it has answered.
func TestNodesBehindGetOneRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks, cost = 20, 100 * time.Millisecond
		var all []*serial
		var peers []Peer
		for i := range 3 {
			all = append(all, &serial{node: memnode.New(fmt.Sprint(i))})
			peers = append(peers, &alone{all[i]})
		}
		all[2].cost = cost
		all[2].stall(5 * time.Second)
		c := NewClient(Config{Env: &bubbleEnv{time.Now(), time.Hour}, Peers: peers, Terms: Terms{TTL: 60 * time.Second},
			NodeTimeout: time.Second})
		for i := range locks {
			o := take(c, fmt.Sprint(i))
			o.held(t)
			o.a.Lock().Release(false)
		}
		time.Sleep(time.Minute)
		if n := all[2].served; n > 2*locks+2 {
			t.Errorf("%d requests for %d locks", n, locks)
		}
		closeNow(t, c)
		time.Sleep(time.Minute)
	})
}

// Clients that come at one moment for one name all get it soon. The servers need longer for all of
// them than the node timeout.
func TestHerdsConverge(t *testing.T) {
	const ttl, cost = 10 * time.Second, 4 * time.Millisecond
	for _, scene := range []struct {
		clients, names int
		shared         bool
	}{{100, 1, true}, {250, 1, true}, {500, 2, true}, {250, 50, false}} {
		t.Run(fmt.Sprintf("%d clients, %d names, shared %v", scene.clients, scene.names, scene.shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLoad(t, 60, ttl, func(s *serial) Peer { return &alone{s} }, 60)
				l.costs(cost)
				time.Sleep(ttl)
				began, before := time.Now(), l.served()
				var owners []*tellOwner
				for i := range scene.clients {
					owners = append(owners, l.acquire(l.newClient(), fmt.Sprint("name of all ", i%scene.names), scene.shared))
				}
				gaveUp := time.AfterFunc(time.Minute, func() {
					for _, o := range owners {
						o.a.Cancel()
					}
				})
				var under sync.WaitGroup
				var failed atomic.Int64
				for _, o := range owners {
					under.Go(func() {
						if f := <-o.done; f.Failed() {
							failed.Add(1)
						} else if !scene.shared {
							o.a.Lock().Release(false)
						}
					})
				}
				under.Wait()
				gaveUp.Stop()
				took := time.Since(began)
				t.Logf("%v, %.1f requests to a server for each, lost %d, failed %d", took,
					float64(l.served()-before)/5/float64(scene.clients), l.lost(), failed.Load())
				if failed.Load() > 0 || took > 2*ttl || l.lost() > 0 {
					t.Errorf("%d failed, the last after %v; %d locks lost", failed.Load(), took, l.lost())
				}
				if scene.shared {
					l.owners = append(l.owners, owners...)
				}
				l.end()
			})
		})
	}
}
