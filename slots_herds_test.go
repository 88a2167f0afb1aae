//go:build !race

package fenlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// serial is a server that carries out one request after the other, each in a fixed time, as its
// clients see it.
type serial struct {
	cost time.Duration

	mu     sync.Mutex
	busy   time.Time // until then
	served int
}

const wayThere = 300 * time.Microsecond

// turn takes a place behind the others, and returns how long it takes until the request is carried
// out.
func (s *serial) turn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served++
	if now := time.Now(); s.busy.Before(now) {
		s.busy = now
	}
	s.busy = s.busy.Add(s.cost)
	return time.Until(s.busy)
}

type serialNode struct {
	*memnode.Node
	server *serial
}

func (n serialNode) InOrder() bool { return true }

func (n serialNode) Start(r node.Request, _ time.Duration, call node.Call) {
	time.AfterFunc(wayThere, func() {
		time.AfterFunc(n.server.turn(), func() {
			a, err := n.Do(context.Background(), r)
			time.AfterFunc(wayThere, func() { call.Done(a, err) })
		})
	})
}

func (n serialNode) Engine() any {
	return struct {
		node.Queuer
		node.Sharer
	}{n.Node, n.Node}
}

// herd has clients of three serial servers begin at once, and returns how many requests there were
// for each client at a server.
func herd(t *testing.T, clients int, do func(l *fenlock.Locker) error) float64 {
	t.Helper()
	var servers []*serial
	var stores []*memnode.Node
	for i := range 3 {
		servers = append(servers, &serial{cost: 100 * time.Microsecond})
		stores = append(stores, memnode.New(fmt.Sprint(i)))
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range clients {
		config := fenlock.Config{Label: fmt.Sprint("client ", i)}
		for j, s := range servers {
			config.Nodes = append(config.Nodes, serialNode{stores[j].Share(), s})
		}
		l := newLocker(t, config)
		all.Go(func() { wantErr(t, do(l)) })
	}
	all.Wait()
	took := time.Since(began)
	time.Sleep(10 * time.Second) // what is left is released
	n := 0
	for _, s := range servers {
		s.mu.Lock()
		n += s.served
		s.mu.Unlock()
	}
	each := float64(n) / float64(3*clients)
	t.Logf("%d clients: %.1f requests each at a server, %v", clients, each, took)
	return each
}

// Clients come at the same moment, and hold what they want for a moment. However many there are,
// each makes so many requests at most.
func TestHerdsGrowLinearly(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for _, clients := range []int{10, 100, 250} {
		for _, n := range []int{1, 5} {
			synctest.Test(t, func(t *testing.T) {
				var held atomic.Int32
				each := herd(t, clients, func(l *fenlock.Locker) error {
					slots, err := l.Slots(name, n)
					if err != nil {
						return err
					}
					slot, err := slots.Acquire(t.Context())
					if err != nil {
						return err
					}
					if now := held.Add(1); int(now) > n {
						t.Errorf("%d clients hold one of %d slots", now, n)
					}
					time.Sleep(time.Millisecond)
					held.Add(-1)
					return slot.Release(context.Background())
				})
				if most := float64(9 + 4*n); each > most {
					t.Errorf("%d clients, %d slots: %.1f requests each; want %v at most", clients, n, each, most)
				}
			})
		}
		synctest.Test(t, func(t *testing.T) {
			each := herd(t, clients, func(l *fenlock.Locker) error {
				var mine []string
				for _, i := range rand.Perm(len(names))[:3] {
					mine = append(mine, names[i])
				}
				locks, err := l.AcquireAll(t.Context(), mine)
				if err != nil {
					return err
				}
				time.Sleep(time.Millisecond)
				return locks.Release(context.Background())
			})
			if each > 26 {
				t.Errorf("%d clients, three of five names: %.1f requests each", clients, each)
			}
		})
	}
}

// A client that finds others waiting for a slot waits with them. It does not try the other slots
// before.
func TestSlotsThatOthersWaitForAreNotTried(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		const n, clients = 20, 10
		holder := c.slots(t, n)
		for range n {
			if _, err := holder.TryAcquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		wait := func() {
			s := c.slots(t, n)
			all.Go(func() {
				_, err := s.Acquire(ctx)
				wantErr(t, err, context.Canceled, fenlock.ErrHeld)
			})
		}
		wait()
		time.Sleep(100 * time.Millisecond)
		before := len(c.nodes[0].times(acquire))
		for range clients {
			wait()
		}
		time.Sleep(100 * time.Millisecond)
		// The name and a slot, and all slots twice: a new client has to listen first.
		if asked := len(c.nodes[0].times(acquire)) - before; asked > clients*(3+2*n) {
			t.Errorf("%d clients have asked for %d names; want %d at most", clients, asked, clients*(3+2*n))
		}
		cancel()
		all.Wait()
	})
}
