package fenlock_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// joins puts a waiter into the lines that is not a Locker's.
func (c *cluster) joins(client string, listens bool) {
	c.t.Helper()
	for _, f := range c.nodes {
		if listens {
			if err := f.view.Listen(context.Background(), client, func(string) {}); err != nil {
				c.t.Fatal(err)
			}
		}
		r := node.Request{Name: name, Holder: holder(client), TTL: ttl,
			Place: node.Place{Waiter: client + ":1", Stamp: 1}}
		if a, err := f.view.Do(context.Background(), as(node.Acquire, r)); err != nil || a.Status != node.Held {
			c.t.Fatalf("%+v, %v", a, err)
		}
	}
}

const (
	clientA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	clientB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestDeadWaiterIsPassedOverAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		c.joins(clientA, false)
		c.joins(clientB, false)
		b := c.comes(c.queuer())
		time.Sleep(10 * time.Second) // less than a line is remembered for
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(b, at)
	})
}

func TestHungWaiterIsPassedOverAfterTheClaimWindow(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		c.joins(clientA, true)
		b := c.comes(c.queuer())
		time.Sleep(10 * time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at+rule.ReservationTTL, at+rule.ReservationTTL+70*time.Millisecond)
	})
}

// The third in the queue asks every two seconds, and more often once it sees that the
// name is kept for somebody.
func TestTwoHungWaitersCostTwoClaimWindowsAndALook(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		c.joins(clientA, true)
		c.joins(clientB, true)
		b := c.comes(c.queuer())
		time.Sleep(10 * time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at+2*rule.ReservationTTL, at+3*rule.ReservationTTL+200*time.Millisecond)
	})
}

func TestLostCallsCostTimeOnly(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		for _, f := range c.nodes {
			f.call = func(func()) {}
		}
		time.Sleep(10 * time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at, at+core.Backstop*5/4)
	})
}

// Whoever was called and did not hear it is passed over like one that is hung.
func TestWhoMissesACallIsPassedOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		d := c.comes(c.queuer())
		time.Sleep(10 * time.Second)
		var lost atomic.Int32
		for _, f := range c.nodes {
			f.call = func(event func()) {
				if lost.Add(1) > 3 {
					event()
				}
			}
		}
		at := time.Since(c.start)
		c.gives(lock)
		first, second := c.either(b, d)
		c.wantsInBy(first, at, at+rule.ReservationTTL+70*time.Millisecond)
		at = time.Since(c.start)
		c.gives(first.lock)
		c.wantsInBy(second, at, at+core.Backstop*5/4)
	})
}

func TestCallsThatComeTwiceAreHarmless(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		for _, f := range c.nodes {
			f.call = func(event func()) {
				event()
				event()
				time.AfterFunc(5*time.Millisecond, event)
				time.AfterFunc(time.Second, event)
			}
		}
		lock := c.comes(c.queuer()).lock
		var all []*arrival
		for range 4 {
			all = append(all, c.comes(c.queuer()))
		}
		for _, a := range all {
			at := time.Since(c.start)
			c.gives(lock)
			c.wantsInBy(a, at, at+time.Second)
			lock = a.lock
			time.Sleep(2 * time.Second)
		}
		c.gives(lock)
		c.wantLeases(0)
	})
}

// A subscription that was broken is renewed: whoever may have missed a call asks.
func TestRenewedSubscriptionMakesUpForALostCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		for _, f := range c.nodes {
			f.call = func(func()) {}
		}
		c.gives(lock)
		time.Sleep(20 * time.Millisecond)
		at := time.Since(c.start)
		c.nodes[1].events[len(c.nodes[1].events)-1]("")
		c.wantsIn(b, at)
	})
}

// Where nodes keep lines but cannot call (no permission, no pipe), waiters poll.
func TestWaitersPollNodesThatCannotCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		for _, f := range c.nodes[:2] {
			f.mute = errors.New("no permission to subscribe")
		}
		b := c.comes(c.queuer())
		time.Sleep(10 * time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at, at+3*core.PollInterval/2)
		c.gives(b.lock)

		// Later it works.
		d := c.comes(c.lockers[1])
		lock, b = d.lock, c.comes(c.lockers[1])
		for _, f := range c.nodes[:2] {
			f.events[len(f.events)-1]("")
		}
		before := c.requests(acquire)
		time.Sleep(10 * time.Second)
		if n := c.requests(acquire) - before; n > 3*10 {
			t.Errorf("%d requests to 3 nodes in 10 s, though all can call by now", n)
		}
		c.gives(lock)
		<-b.done
	})
}

// The holder has died: its leases end, and nobody calls.
func TestLockThatExpiresIsTakenWhenItDoes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		r := node.Request{Name: name, Holder: holder("dies"), TTL: ttl}
		for _, f := range c.nodes {
			if _, err := f.view.Do(t.Context(), as(node.Acquire, r)); err != nil {
				t.Fatal(err)
			}
		}
		b := c.comes(c.queuer())
		d := c.comes(c.queuer())
		c.wantsInBy(b, ttl, ttl+2*time.Millisecond)
		at := time.Since(c.start)
		c.gives(b.lock)
		c.wantsIn(d, at)
	})
}

// Another library's client releases without a call.
func TestLockThatIsRemovedWithoutACallIsTakenSoon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		for _, f := range c.nodes {
			f.call = func(func()) {}
		}
		time.Sleep(time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at, at+core.Backstop*5/4)
	})
}

func TestNodesThatRestartWhileSomebodyWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		d := c.comes(c.queuer())
		time.Sleep(time.Second)
		c.crash(0, nil)
		c.crash(1, nil)
		time.Sleep(5 * time.Second)
		if lock.Context().Err() != nil {
			// Two of three nodes forgot everything, which no clock saved here: the
			// lock may be lost, but not kept by two.
			t.Log("lost, as it may be:", context.Cause(lock.Context()))
		}
		lock.Release(context.Background())
		// The lines are lost too, so the order may be.
		first, second := c.either(b, d)
		c.wantsInBy(first, 0, 10*time.Second)
		at := time.Since(c.start)
		c.gives(first.lock)
		c.wantsInBy(second, at, at+core.Backstop)
	})
}

func TestNodesThatAreDownWhileSomebodyWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		c.set(0, 2, allOps, down)
		time.Sleep(time.Second)
		c.set(0, 2, allOps, fault{})
		time.Sleep(time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(b, at)
	})
}

// Whatever the delays are, everybody is served, and in not much more than the time
// that the messages take.
func TestEverybodyIsServedUnderRandomDelays(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, 5, func(t *testing.T, c *cluster) {
			random := rand.New(rand.NewPCG(seed, 1))
			for _, f := range c.nodes {
				f.set(allOps, fault{request: time.Duration(random.IntN(8)) * time.Millisecond, reply: time.Duration(random.IntN(8)) * time.Millisecond})
				delay := time.Duration(random.IntN(8)) * time.Millisecond
				f.call = func(event func()) { time.AfterFunc(delay, event) }
			}
			const clients, rounds = 8, 5
			var all sync.WaitGroup
			inside := 0
			for range clients {
				l := c.queuer()
				pause := time.Duration(random.IntN(10)) * time.Millisecond
				all.Go(func() {
					for range rounds {
						time.Sleep(pause)
						lock, err := l.Acquire(t.Context(), name)
						if err != nil {
							t.Error(err)
							return
						}
						if inside++; inside != 1 {
							t.Error("two holders")
						}
						time.Sleep(pause)
						inside--
						lock.Release(t.Context())
					}
				})
			}
			all.Wait()
			took := time.Since(c.start)
			if most := clients * rounds * 150 * time.Millisecond; took > most {
				t.Errorf("seed %d: %v for %d acquisitions", seed, took, clients*rounds)
			}
			t.Logf("seed %d: %v, %.1f requests for each acquisition", seed, took, float64(c.requests(allOps))/clients/rounds)
			time.Sleep(20 * time.Millisecond)
			c.wantNothingLeft()
		})
	}
}

// wantNothingLeft wants neither a lease nor a waiter on any node.
func (c *cluster) wantNothingLeft() {
	c.t.Helper()
	c.wantLeases(0)
	for i, f := range c.nodes {
		r := node.Request{Name: name, Holder: holder("looks"), TTL: ttl}
		if a, err := f.view.Do(context.Background(), as(node.Acquire, r)); err != nil || a.Status != node.Granted {
			c.t.Errorf("node %d, which should be free, answers %+v, %v", i, a, err)
		} else if n := c.inQueue(i); n != 0 {
			c.t.Errorf("%d are still in the queue on node %d", n, i)
		}
		f.view.Do(context.Background(), as(node.Release, r))
	}
}

// A request that is sent when it is no longer needed, because the process was
// busy, must not put a waiter into a line that it has left.
func TestLateRequestsLeaveNobodyInQueue(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		// What is sent to the last node from now on is late there.
		c.nodes[4].set(acquire, fault{request: 30 * time.Millisecond})
		time.Sleep(time.Second)
		c.gives(lock)
		<-b.done
		d := c.comes(c.queuer())
		c.gives(b.lock) // overtakes the acquire at the last node
		<-d.done
		c.gives(d.lock)
		time.Sleep(time.Second)
		c.wantNothingLeft()
	})
}

// Whose leave was lost is called in vain, and passes the call on at once.
func TestWaitersThatGaveUpUnheardPassTheirCallsOn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.queuer()
		ctx, cancel := context.WithCancel(t.Context())
		c.comesUntil(ctx, l)
		c.set(0, 3, release, fault{err: errDown})
		cancel()
		synctest.Wait()
		c.set(0, 3, release, fault{})
		if n := c.inQueue(0); n != 1 {
			t.Fatalf("%d in the queue, want the one that could not leave", n)
		}
		b := c.comes(c.queuer())
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(b, at)
		c.gives(b.lock)
		time.Sleep(2 * rule.QueueExpiry)
		if n := fenlock.Waiters(l); n != 0 {
			t.Errorf("the locker remembers %d waiters", n)
		}
	})
}

// A node whose Listen never returns must not hold the others up.
func TestNodeThatNeverListens(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		stuck := make(chan struct{})
		c.nodes[2].stuck = stuck
		b := c.comes(c.queuer())
		time.Sleep(nodeTimeout + time.Millisecond) // in the moment itself either may be first
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(b, at)
		c.gives(b.lock)
		close(stuck)
	})
}

// What a node says of its line is believed within bounds.
func TestAbsurdAnswersDoNoHarm(t *testing.T) {
	for _, absurd := range []node.Answer{
		{Ahead: -1 << 40}, {Ahead: 1 << 60}, {Remaining: math.MaxInt64}, {Remaining: -1}, {Clock: math.MaxInt64}, {Clock: math.MinInt64},
	} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.comes(c.queuer()).lock
			for _, f := range c.nodes {
				f.forge = func(a node.Answer) node.Answer {
					if a.Status != node.Held {
						return a
					}
					a = absurd
					a.Status = node.Held
					return a
				}
			}
			b := c.comes(c.queuer())
			time.Sleep(time.Minute)
			if n := c.requests(acquire); n > 3*100 {
				t.Errorf("%+v: %d requests in a minute", absurd, n)
			}
			at := time.Since(c.start)
			c.gives(lock)
			c.wantsInBy(b, at, at+core.Backstop*5/4)
			c.gives(b.lock)
		})
	}
}
