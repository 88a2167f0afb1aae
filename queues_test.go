package fenlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
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

func TestNewcomerDoesNotOvertake(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		second := c.warm(c.queuer())
		newcomer := c.warm(c.queuer())
		b := c.comes(second)
		// The calls to the waiter take a while. The lock is free, but not for others.
		const late = 100 * time.Millisecond
		c.calls(func(event func()) { time.AfterFunc(late, event) })
		at := time.Since(c.start)
		c.gives(lock)
		_, err := newcomer.TryAcquire(t.Context(), name)
		wantErr(t, err, fenlock.ErrHeld)
		if !strings.Contains(err.Error(), "is held by me") { // it was given to the next in the queue
			t.Error(err)
		}
		a := c.comes(newcomer)
		c.wantsIn(b, at+late, at+late)
		c.passes(b.lock, a, late, late)
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

func TestWhoGivesUpLeavesAllQueuesAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		ctx, cancel := context.WithCancel(t.Context())
		b := c.comesUntil(ctx, c.queuer())
		d := c.comes(c.queuer())
		c.wantQueue(2)
		cancel()
		synctest.Wait()
		wantErr(t, b.err, context.Canceled, fenlock.ErrHeld)
		c.wantQueue(1)
		c.passes(lock, d, 0, 0)
	})
}

// Also if it gives up at the worst moment: while its requests are on their way.
func TestWhoGivesUpDuringAnAttemptLeaves(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.comes(c.queuer()).lock
		l := c.warm(c.queuer())
		for _, late := range []fault{{request: 20 * time.Millisecond}, {reply: 20 * time.Millisecond},
			{request: 20 * time.Millisecond, lost: true}} {
			c.set(0, 3, acquire, late)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			b := c.comesUntil(ctx, l)
			<-b.done
			cancel()
			wantErr(t, b.err, context.DeadlineExceeded)
			c.set(0, 3, acquire, fault{})
			time.Sleep(2 * nodeTimeout)
			c.wantQueue(0)
		}
		c.gives(lock)
		c.wantLeases(0)
	})
}

// What is given is leased for a second only. A minimum hold that is longer counts from the moment
// at which the lock is had, also of a process that dies in the next.
func TestMinimumHoldOfWhatIsGiven(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first := c.comes(c.queuer()).lock
		waits := c.queuer()
		done := make(chan error)
		go func() {
			_, err := waits.Acquire(t.Context(), name, fenlock.WithMinHold(ttl/2))
			done <- err
		}()
		time.Sleep(time.Second)
		c.gives(first)
		wantErr(t, <-done)
		synctest.Wait()
		var kept int // one node may not have been needed
		for _, f := range c.nodes {
			if l, err := f.view.Inspect(t.Context(), name); err == nil && l.Remaining >= ttl/2 {
				kept++
			}
		}
		if kept < 2 {
			t.Errorf("%d of 3 nodes keep it", kept)
		}
	})
}
