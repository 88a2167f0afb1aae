package fenlock_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
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

// joins puts waiters into the queues that are not a Locker's.
func (c *cluster) joins(listen bool, letters string) {
	c.t.Helper()
	for _, letter := range letters {
		client := strings.Repeat(string(letter), node.IDLength)
		r := node.Request{Op: node.Acquire, Name: name, Holder: holder(client), TTL: ttl}
		r.Place = node.Place{Waiter: client + ":1", Stamp: 1}
		for _, f := range c.nodes {
			if listen {
				wantErr(c.t, f.view.Listen(context.Background(), client, func(string) {}))
			}
			if a, err := f.view.Do(context.Background(), r); err != nil || a.Status != node.Held {
				c.t.Fatalf("%+v, %v", a, err)
			}
		}
	}
}

// However those before are out of reach, or the nodes are, the next one has the lock.
func TestTheNextHasTheLock(t *testing.T) {
	type trouble struct {
		before      func(*cluster) // it comes
		meanwhile   func(*cluster)
		least, most time.Duration
	}
	none := func(*cluster) {}
	bubbles(t, 3, map[string]trouble{
		"dead waiters are passed over at once": {func(c *cluster) { c.joins(false, "ab") }, none, 0, 0},
		"a hung waiter is, after the claim window": {func(c *cluster) { c.joins(true, "a") },
			none, rule.ReservationTTL, rule.ReservationTTL + 70*time.Millisecond},
		// The third in the queue asks every two seconds, and more often once it sees that the name
		// is kept for another client.
		"two hung waiters cost two claim windows and a look": {func(c *cluster) { c.joins(true, "ab") },
			none, 2 * rule.ReservationTTL, 3*rule.ReservationTTL + 200*time.Millisecond},
		// Or another library's client releases, without a call.
		"lost calls cost time only": {none, func(c *cluster) { c.calls(func(func()) {}) }, 0, core.Backstop * 5 / 4},
		"nodes are down": {none, func(c *cluster) {
			c.set(0, 2, allOps, down)
			time.Sleep(time.Second)
			c.set(0, 2, allOps, fault{})
		}, 0, 0},
		"a node whose Listen never returns holds nobody up": {func(c *cluster) {
			c.nodes[2].stuck = make(chan struct{})
			time.AfterFunc(time.Minute, func() { close(c.nodes[2].stuck) })
		}, none, 0, 0},
	}, func(t *testing.T, c *cluster, test trouble) {
		lock := c.comes(c.queuer()).lock
		test.before(c)
		b := c.comes(c.queuer())
		test.meanwhile(c)
		time.Sleep(10 * time.Second) // less than a queue is remembered for
		c.passes(lock, b, test.least, test.most)
		c.gives(b.lock)
	})
}

// A waiter that was notified and did not hear it is passed over like one that is hung.
func TestWhoMissesACallIsPassedOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		d := c.comes(c.queuer())
		time.Sleep(10 * time.Second)
		var lost atomic.Int32
		c.calls(func(event func()) {
			if lost.Add(1) > 3 {
				event()
			}
		})
		at := time.Since(c.start)
		c.gives(lock)
		first, second := c.either(b, d)
		c.wantsIn(first, at, at+rule.ReservationTTL+70*time.Millisecond)
		c.passes(first.lock, second, 0, core.Backstop*5/4)
	})
}

func TestCallsThatComeTwiceAreHarmless(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.calls(func(event func()) {
			event()
			event()
			time.AfterFunc(5*time.Millisecond, event)
			time.AfterFunc(time.Second, event)
		})
		lock := c.comes(c.queuer()).lock
		var all []*arrival
		for range 4 {
			all = append(all, c.comes(c.queuer()))
		}
		for _, a := range all {
			c.passes(lock, a, 0, time.Second)
			lock = a.lock
			time.Sleep(2 * time.Second)
		}
		c.gives(lock)
		c.wantLeases(0)
	})
}

// A subscription that was broken is renewed: waiters that may have missed a notification ask.
func TestRenewedSubscriptionMakesUpForALostCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		b := c.comes(c.queuer())
		c.calls(func(func()) {})
		c.gives(lock)
		time.Sleep(20 * time.Millisecond)
		at := time.Since(c.start)
		c.nodes[1].events[len(c.nodes[1].events)-1]("")
		c.wantsIn(b, at, at)
	})
}

// Where nodes keep queues but cannot call (no permission, no pipe), waiters poll.
func TestWaitersPollNodesThatCannotCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		for _, f := range c.nodes[:2] {
			f.mute = errors.New("no permission to subscribe")
		}
		l := c.queuer()
		b := c.comes(l)
		time.Sleep(10 * time.Second)
		c.passes(lock, b, 0, 3*core.PollInterval/2)
		c.gives(b.lock)

		// Later it works.
		lock, b = c.comes(l).lock, c.comes(l)
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

// The holder has died: its leases end, and no notification comes.
func TestLockThatExpiresIsTakenWhenItDoes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.leased(0, 3, "dies", ttl)
		b := c.comes(c.queuer())
		d := c.comes(c.queuer())
		c.wantsIn(b, ttl, ttl+2*time.Millisecond)
		c.passes(b.lock, d, 0, 0)
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
		// The queues are lost too, so the order may be.
		first, second := c.either(b, d)
		c.wantsIn(first, 0, 10*time.Second)
		c.passes(first.lock, second, 0, core.Backstop)
	})
}

// Whatever the delays are, every waiter is served, and in not much more than the time that the
// messages take.
func TestEverybodyIsServedUnderRandomDelays(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, 5, func(t *testing.T, c *cluster) {
			random := rand.New(rand.NewPCG(seed, 1))
			for _, f := range c.nodes {
				some := func() time.Duration { return time.Duration(random.IntN(8)) * time.Millisecond }
				f.set(allOps, fault{request: some(), reply: some()})
				delay := some()
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
	c.leased(0, len(c.nodes), "looks on", ttl)
	c.wantQueue(0)
}

// A request that is sent when it is no longer needed, because the process was busy, must not put a
// waiter back into a queue.
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
		c.set(0, 3, release, down)
		cancel()
		synctest.Wait()
		c.set(0, 3, release, fault{})
		c.wantQueue(1) // the one that could not leave
		b := c.comes(c.queuer())
		c.passes(lock, b, 0, 0)
		c.gives(b.lock)
		time.Sleep(2 * rule.QueueExpiry)
		if n := fenlock.Waiters(l); n != 0 {
			t.Errorf("the locker remembers %d waiters", n)
		}
	})
}

// What a node says of its queue is believed within bounds.
func TestAbsurdAnswersDoNoHarm(t *testing.T) {
	for _, absurd := range []node.Answer{
		{Ahead: -1 << 40}, {Ahead: 1 << 60}, {Remaining: math.MaxInt64}, {Remaining: -1}, {Clock: math.MaxInt64},
		{Clock: math.MinInt64},
	} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.comes(c.queuer()).lock
			absurd.Status, absurd.HeldBy = node.Held, "somebody" // not another program, which sends no notification
			for _, f := range c.nodes {
				f.forge = func(a node.Answer) node.Answer {
					if a.Status == node.Held {
						return absurd
					}
					return a
				}
			}
			b := c.comes(c.queuer())
			time.Sleep(time.Minute)
			if n := c.requests(acquire); n > 3*100 {
				t.Errorf("%+v: %d requests in a minute", absurd, n)
			}
			c.passes(lock, b, 0, core.Backstop*5/4)
			c.gives(b.lock)
		})
	}
}

// Another Redlock client has the lock, and sends no notification at its release: waiters ask as
// often as such clients do.
func TestWaitForAnotherProgram(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		another := node.Request{Op: node.Acquire, Name: name, Holder: "another program's", TTL: time.Minute}
		for _, f := range c.nodes {
			f.call = func(func()) {}
			f.view.Do(t.Context(), another)
		}
		var freed time.Time
		time.AfterFunc(20*time.Second, func() {
			freed, another.Op = time.Now(), node.Release
			for _, f := range c.nodes {
				f.view.Do(context.Background(), another)
			}
		})
		lock, err := c.queuer().Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(freed); waited > 200*time.Millisecond {
			t.Errorf("it came %v after the lock was free", waited)
		}
		lock.Release(t.Context())
	})
}
