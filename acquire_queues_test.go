package fenlock_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// arrival is what became of an Acquire in the background.
type arrival struct {
	lock *fenlock.Lock
	err  error
	at   time.Duration
	done chan struct{}
}

// comes starts an Acquire, a millisecond after the one before, and lets it get as far as it can at
// that instant.
func (c *cluster) comes(l *fenlock.Locker) *arrival { return c.comesUntil(context.Background(), l) }

func (c *cluster) comesUntil(ctx context.Context, l *fenlock.Locker, opts ...fenlock.Option) *arrival {
	a := &arrival{done: make(chan struct{})}
	time.Sleep(time.Millisecond)
	go func() {
		defer close(a.done)
		a.lock, a.err = l.Acquire(ctx, name, opts...)
		a.at = time.Since(c.start)
	}()
	synctest.Wait()
	return a
}

// wantsIn waits until the arrival has the lock, and fails if that was not in time.
func (c *cluster) wantsIn(a *arrival, from, to time.Duration) {
	c.t.Helper()
	select {
	case <-a.done:
	case <-time.After(time.Hour):
		c.t.Fatal("no lock after an hour")
	}
	if a.err != nil {
		c.t.Fatal(a.err)
	}
	if a.at < from || a.at > to {
		c.t.Errorf("it has the lock at %v, want %v to %v", a.at, from, to)
	}
}

// passes releases a lock, and wants the arrival to have it so long after that.
func (c *cluster) passes(lock *fenlock.Lock, to *arrival, least, most time.Duration) {
	c.t.Helper()
	at := time.Since(c.start)
	c.gives(lock)
	c.wantsIn(to, at+least, at+most)
}

func (c *cluster) gives(lock *fenlock.Lock) {
	c.t.Helper()
	wantErr(c.t, lock.Release(context.Background()))
	synctest.Wait()
}

// warm makes a locker listen and learn the nodes' time, as one does that has
// waited before.
func (c *cluster) warm(l *fenlock.Locker) *fenlock.Locker {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, name)
	wantErr(c.t, err, fenlock.ErrHeld, context.DeadlineExceeded)
	synctest.Wait()
	return l
}

// inQueue returns how many are in the queue on a node.
func (c *cluster) inQueue(i int) int {
	c.t.Helper()
	r := node.Request{Op: node.Acquire, Name: name, Holder: holder("looks"), TTL: ttl}
	a, err := c.nodes[i].view.Do(context.Background(), r)
	if err != nil || a.Status != node.Held {
		c.t.Fatalf("%+v, %v", a, err)
	}
	return a.Ahead
}

// wantQueue wants so many to be in the queue on each node.
func (c *cluster) wantQueue(want int) {
	c.t.Helper()
	for i := range c.nodes {
		if n := c.inQueue(i); n != want {
			c.t.Errorf("%d in the queue on node %d, want %d", n, i, want)
		}
	}
}

// calls has something become of each call to a waiter.
func (c *cluster) calls(how func(event func())) {
	for _, f := range c.nodes {
		f.call = how
	}
}

// The next has it at the instant of the release. The time on a client's wall clock, or
// since its machine was started, makes no difference to its place.
func TestFirstComeFirstServedWhateverTheClocks(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		var all []*arrival
		for i := range 8 {
			ahead := []time.Duration{0, 3 * time.Hour, 2 * time.Second}[i%3]
			all = append(all, c.comes(c.queuer(func(config *fenlock.Config) {
				config.Clock = func() time.Duration { return c.now() + ahead }
			})))
		}
		time.Sleep(time.Second)
		for _, a := range all {
			c.passes(lock, a, 0, 0)
			lock = a.lock
		}
		c.gives(lock)
		c.wantLeases(0)
	})
}

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
		wantErr(t, err)
		if waited := time.Since(freed); waited > 200*time.Millisecond {
			t.Errorf("it came %v after the lock was free", waited)
		}
		lock.Release(t.Context())
	})
}

func TestTryAcquireLeavesNothingInQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.warm(c.queuer())
		_, err := l.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		c.wantQueue(0)
		c.gives(lock)
		c.wantLeases(0)
	})
}
