package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/core"
)

// arrival is what became of an Acquire in the background.
type arrival struct {
	lock *fenlock.Lock
	err  error
	at   time.Duration
	done chan struct{}
}

// comes starts an Acquire, a millisecond after whoever came before, and lets it
// get as far as it can at that instant.
func (c *cluster) comes(l *fenlock.Locker) *arrival { return c.comesUntil(context.Background(), l) }

func (c *cluster) comesUntil(ctx context.Context, l *fenlock.Locker) *arrival {
	a := &arrival{done: make(chan struct{})}
	time.Sleep(time.Millisecond)
	go func() {
		defer close(a.done)
		a.lock, a.err = l.Acquire(ctx, name)
		a.at = time.Since(c.start)
	}()
	synctest.Wait()
	return a
}

// wantsIn waits until the arrival has the lock, and fails if that was not at
// the time.
func (c *cluster) wantsIn(a *arrival, at time.Duration) {
	c.t.Helper()
	c.wantsInBy(a, at, at)
}

func (c *cluster) wantsInBy(a *arrival, from, to time.Duration) {
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

// either returns two arrivals in the order in which they have the lock.
func (c *cluster) either(a, b *arrival) (first, second *arrival) {
	c.t.Helper()
	select {
	case <-a.done:
		return a, b
	case <-b.done:
		return b, a
	case <-time.After(time.Hour):
		c.t.Fatal("nobody has the lock after an hour")
	}
	return nil, nil
}

func (c *cluster) gives(lock *fenlock.Lock) {
	c.t.Helper()
	if err := lock.Release(context.Background()); err != nil {
		c.t.Error(err)
	}
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

// inLine returns how many are in line on a node.
func (c *cluster) inLine(i int) int {
	c.t.Helper()
	r := fenlock.Request{Name: name, Holder: holder("looks"), TTL: ttl}
	a, err := c.nodes[i].view.Acquire(context.Background(), r)
	if err != nil || a.Status != fenlock.Held {
		c.t.Fatalf("%+v, %v", a, err)
	}
	return a.Ahead
}

func TestNextHasItAtTheInstantOfTheRelease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		first := c.comes(c.liner())
		time.Sleep(time.Second)
		second := c.comes(c.liner())
		time.Sleep(2 * time.Second)
		at := time.Since(c.start)
		c.gives(first.lock)
		c.wantsIn(second, at)
		c.gives(second.lock)
		c.wantLeases(0)
	})
}

// The time on a client's wall clock, or since its machine was started, makes no
// difference to its place.
func TestFirstComeFirstServedWhateverTheClocks(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		var all []*arrival
		for i := range 8 {
			l := c.liner()
			ahead := []time.Duration{0, 3 * time.Hour, 2 * time.Second}[i%3]
			fenlock.SetClock(l, func() time.Duration { return c.now() + ahead })
			all = append(all, c.comes(l))
		}
		time.Sleep(time.Second)
		for _, a := range all {
			before := time.Since(c.start)
			c.gives(lock)
			c.wantsIn(a, before)
			lock = a.lock
		}
		c.gives(lock)
	})
}

func TestNewcomerDoesNotOvertake(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		second := c.warm(c.liner())
		newcomer := c.warm(c.liner())
		b := c.comes(second)
		// The calls to the waiter take a while. The lock is free, but not for others.
		for _, f := range c.nodes {
			f.call = func(event func()) { time.AfterFunc(100*time.Millisecond, event) }
		}
		at := time.Since(c.start)
		c.gives(lock)
		_, err := newcomer.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		if !strings.Contains(err.Error(), "the next in line") {
			t.Errorf("%v does not tell that it is kept for the next in line", err)
		}
		a := c.comes(newcomer)
		c.wantsIn(b, at+100*time.Millisecond)
		at = time.Since(c.start)
		c.gives(b.lock)
		c.wantsIn(a, at+100*time.Millisecond)
	})
}

func TestTryAcquireLeavesNothingInLine(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		l := c.warm(c.liner())
		_, err := l.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		for i := range c.nodes {
			if n := c.inLine(i); n != 0 {
				t.Errorf("%d in line on node %d", n, i)
			}
		}
		c.gives(lock)
		c.wantLeases(0)
	})
}

func TestWhoGivesUpLeavesAllLinesAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		ctx, cancel := context.WithCancel(t.Context())
		b := c.comesUntil(ctx, c.liner())
		d := c.comes(c.liner())
		for i := range c.nodes {
			if n := c.inLine(i); n != 2 {
				t.Errorf("%d in line on node %d, want 2", n, i)
			}
		}
		cancel()
		synctest.Wait()
		wantErr(t, b.err, context.Canceled, fenlock.ErrHeld)
		for i := range c.nodes {
			if n := c.inLine(i); n != 1 {
				t.Errorf("%d in line on node %d after one left", n, i)
			}
		}
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(d, at)
	})
}

// Also if it gives up at the worst moment: while its requests are on their way.
func TestWhoGivesUpDuringAnAttemptLeaves(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		l := c.warm(c.liner())
		for _, late := range []fault{{request: 20 * time.Millisecond}, {reply: 20 * time.Millisecond}, {request: 20 * time.Millisecond, lost: true}} {
			c.set(0, 3, acquire, late)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			b := c.comesUntil(ctx, l)
			<-b.done
			cancel()
			wantErr(t, b.err, context.DeadlineExceeded)
			c.set(0, 3, acquire, fault{})
			time.Sleep(2 * nodeTimeout)
			for i := range c.nodes {
				if n := c.inLine(i); n != 0 {
					t.Errorf("%+v: %d in line on node %d", late, n, i)
				}
			}
		}
		c.gives(lock)
		c.wantLeases(0)
	})
}

// joins puts a waiter into the lines that is not a Locker's.
func (c *cluster) joins(client string, listens bool) {
	c.t.Helper()
	for _, f := range c.nodes {
		if listens {
			if err := f.view.Listen(context.Background(), client, func(string) {}); err != nil {
				c.t.Fatal(err)
			}
		}
		r := fenlock.Request{Name: name, Holder: holder(client), TTL: ttl,
			Place: fenlock.Place{Waiter: client + ":1", Stamp: 1}}
		if a, err := f.view.Acquire(context.Background(), r); err != nil || a.Status != fenlock.Held {
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
		lock := c.comes(c.liner()).lock
		c.joins(clientA, false)
		c.joins(clientB, false)
		b := c.comes(c.liner())
		time.Sleep(10 * time.Second) // less than a line is remembered for
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(b, at)
	})
}

func TestHungWaiterIsPassedOverAfterTheClaimWindow(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		c.joins(clientA, true)
		b := c.comes(c.liner())
		time.Sleep(10 * time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at+core.ClaimWindow, at+core.ClaimWindow+70*time.Millisecond)
	})
}

// The third in line asks every two seconds, and more often once it sees that the
// name is kept for somebody.
func TestTwoHungWaitersCostTwoClaimWindowsAndALook(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		c.joins(clientA, true)
		c.joins(clientB, true)
		b := c.comes(c.liner())
		time.Sleep(10 * time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsInBy(b, at+2*core.ClaimWindow, at+3*core.ClaimWindow+200*time.Millisecond)
	})
}

func TestLostCallsCostTimeOnly(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
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
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
		d := c.comes(c.liner())
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
		c.wantsInBy(first, at, at+core.ClaimWindow+70*time.Millisecond)
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
		lock := c.comes(c.liner()).lock
		var all []*arrival
		for range 4 {
			all = append(all, c.comes(c.liner()))
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
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
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
		lock := c.comes(c.liner()).lock
		for _, f := range c.nodes[:2] {
			f.mute = errors.New("no permission to subscribe")
		}
		b := c.comes(c.liner())
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
		r := fenlock.Request{Name: name, Holder: holder("dies"), TTL: ttl}
		for _, f := range c.nodes {
			if _, err := f.view.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		b := c.comes(c.liner())
		d := c.comes(c.liner())
		c.wantsInBy(b, ttl, ttl+2*time.Millisecond)
		at := time.Since(c.start)
		c.gives(b.lock)
		c.wantsIn(d, at)
	})
}

// Another library's client releases without a call.
func TestLockThatIsRemovedWithoutACallIsTakenSoon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
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
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
		d := c.comes(c.liner())
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
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
		c.set(0, 2, allOps, down)
		time.Sleep(time.Second)
		c.set(0, 2, allOps, fault{})
		time.Sleep(time.Second)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(b, at)
	})
}

// Who has waited before stands in line with its first request.
func TestOneRequestToEachNodeIsEnoughToStandInLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		l := c.warm(c.liner())
		before := c.requests(allOps)
		b := c.comes(l)
		time.Sleep(time.Second)
		c.gives(lock)
		c.wantsInBy(b, 0, time.Minute)
		synctest.Wait()
		// To join, to release and to take the lock. A node whose release comes
		// late is asked in vain, and told so.
		if n := c.requests(allOps) - before; n < 3*5 || n > 3*5+2 {
			t.Errorf("%d requests to 5 nodes, want 15", n)
		}
		if n := fenlock.InLine(l); n != 0 {
			t.Errorf("the locker remembers %d waiters", n)
		}
	})
}

// Who came first is first, also if it had to wait for others of its process
// before it could ask the nodes.
func TestTimeInTheQueueOfTheProcessCounts(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		l := c.liner()
		first, second := c.comes(l), c.comes(l)
		third := c.comes(c.liner())
		c.gives(lock)
		c.wantsInBy(first, 0, time.Minute)
		time.Sleep(time.Millisecond)
		c.gives(first.lock)
		c.wantsInBy(second, 0, time.Minute)
		select {
		case <-third.done:
			t.Error("two holders")
		default:
		}
		at := time.Since(c.start)
		c.gives(second.lock)
		c.wantsIn(third, at)
	})
}

// Within a process one caller at a time asks the nodes.
func TestWaitersOfOneProcessQueueInMemory(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		l := c.liner()
		var all []*arrival
		for range 100 {
			all = append(all, c.comes(l))
		}
		before := c.requests(acquire)
		time.Sleep(time.Minute)
		if n := c.requests(acquire) - before; n > 100 {
			t.Errorf("100 idle waiters of one process sent %d requests to 3 nodes in a minute", n)
		}
		if n := c.inLine(0); n != 1 {
			t.Errorf("%d of them are in line on a node", n)
		}
		for _, a := range all {
			at := time.Since(c.start)
			c.gives(lock)
			c.wantsIn(a, at)
			lock = a.lock
		}
		c.gives(lock)
	})
}

func TestQueueInMemoryLetsGoOfThoseWhoGiveUp(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		l := c.liner()
		ctx, cancel := context.WithCancel(t.Context())
		first := c.comesUntil(ctx, l)
		second := c.comesUntil(ctx, l)
		third := c.comes(l)
		cancel()
		synctest.Wait()
		wantErr(t, first.err, context.Canceled, fenlock.ErrHeld)
		wantErr(t, second.err, context.Canceled, fenlock.ErrHeld)
		at := time.Since(c.start)
		c.gives(lock)
		c.wantsIn(third, at)
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.comes(c.liner())
		l := c.liner()
		first, second := c.comes(l), c.comes(l)
		go l.Close()
		synctest.Wait()
		for _, a := range []*arrival{first, second} {
			select {
			case <-a.done:
				wantErr(t, a.err, fenlock.ErrClosed)
			default:
				t.Error("still waiting")
			}
		}
	})
}

func TestObserverHearsWhyOneWaits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner(label("worker 1"))).lock
		second := c.comes(c.liner(label("worker 2")))
		var mu sync.Mutex
		var heard []string
		type key struct{}
		ctx := context.WithValue(context.Background(), key{}, "mine")
		l := c.liner(func(config *fenlock.Config) {
			config.Observer.Waiting = func(ctx context.Context, name string, why error) {
				mu.Lock()
				defer mu.Unlock()
				held := why.(*fenlock.HeldError)
				heard = append(heard, fmt.Sprintf("%s %v: %s, %d ahead", name, ctx.Value(key{}), held.HeldBy, held.Ahead))
			}
		})
		third := c.comesUntil(ctx, l)
		fourth := c.comesUntil(ctx, l)
		time.Sleep(time.Minute + 300*time.Millisecond) // the same again is no news
		c.gives(lock)
		time.Sleep(5 * time.Second)
		mu.Lock()
		got := strings.Join(heard, "\n")
		mu.Unlock()
		want := []string{
			"orders/42 mine: worker 1, 1 ahead",
			"orders/42 mine: worker 1, 2 ahead",
			"orders/42 mine: worker 2, 0 ahead",
		}
		if got != strings.Join(want, "\n") {
			t.Errorf("heard\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		for _, a := range []*arrival{second, third, fourth} {
			<-a.done
			c.gives(a.lock)
		}
	})
}

func TestIdleWaitersCostLittle(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		all := []*arrival{c.comes(c.liner())}
		const waiters, minutes = 20, 10
		for range waiters {
			all = append(all, c.comes(c.liner()))
		}
		before := c.requests(acquire) + c.requests(release)
		time.Sleep(minutes * time.Minute)
		sent := float64(c.requests(acquire) + c.requests(release) - before)
		if rate := sent / (waiters * minutes * 60 * 5); rate > 0.5 {
			t.Errorf("a waiter sends %.2f requests per second to each node", rate)
		}
		for _, a := range all {
			<-a.done
			c.gives(a.lock)
		}
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
				l := c.liner()
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
		r := fenlock.Request{Name: name, Holder: holder("looks"), TTL: ttl}
		if a, err := f.view.Acquire(context.Background(), r); err != nil || a.Status != fenlock.Granted {
			c.t.Errorf("node %d, which should be free, answers %+v, %v", i, a, err)
		} else if n := c.inLine(i); n != 0 {
			c.t.Errorf("%d are still in line on node %d", n, i)
		}
		f.view.Release(context.Background(), r)
	}
}

// A request that is sent when it is no longer needed, because the process was
// busy, must not put a waiter into a line that it has left.
func TestLateRequestsLeaveNobodyInLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		lock := c.comes(c.liner()).lock
		b := c.comes(c.liner())
		// What is sent to the last node from now on is late there.
		c.nodes[4].set(acquire, fault{request: 30 * time.Millisecond})
		time.Sleep(time.Second)
		c.gives(lock)
		<-b.done
		d := c.comes(c.liner())
		c.gives(b.lock) // overtakes the acquire at the last node
		<-d.done
		c.gives(d.lock)
		time.Sleep(time.Second)
		c.wantNothingLeft()
	})
}
