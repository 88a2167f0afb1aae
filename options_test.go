package fenlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// Each acquisition of one Locker has its own terms, and keeps them.
func TestOptions(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		short, err := l.Acquire(t.Context(), "short", fenlock.WithTTL(2*time.Second), fenlock.WithLabel("the short one"),
			fenlock.WithMaxHold(time.Minute))
		wantErr(t, err)
		long, err := l.TryAcquire(t.Context(), "long", fenlock.WithTTL(30*time.Second), fenlock.WithMaxHold(-1))
		wantErr(t, err)
		usual := take(t, l, name)
		synctest.Wait() // for the third node
		for name, want := range map[string]time.Duration{"short": 2 * time.Second, "long": 30 * time.Second, name: ttl} {
			if got := c.lease(0, name).Remaining; got != want {
				t.Errorf("%s is leased for %v, want %v", name, got, want)
			}
		}
		wantRemaining(t, short, 2*time.Second-22*time.Millisecond)
		wantRemaining(t, long, 30*time.Second-302*time.Millisecond)
		_, err = l.TryAcquire(t.Context(), "short")
		var held *fenlock.HeldError
		if !errors.As(err, &held) || held.HeldBy != "the short one" {
			t.Errorf("%v; want it held by the short one", err)
		}

		// Each is extended at a third of its TTL, and not because of another one: nothing is
		// due in a second that it was not.
		before := c.requests(extend)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		wantCause(t, short.Context(), nil)
		if got, most := c.requests(extend)-before, 3*(59*3/2+2+59*3/10+2+59*3/30+2); got > most {
			t.Errorf("%d extends in a minute, want %d at most", got, most)
		}
		time.Sleep(2 * time.Second)
		wantCause(t, short.Context(), fenlock.ErrMaxHold)
		if err := context.Cause(short.Context()); !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("%v; want the maximum that it was given", err)
		}
		time.Sleep(2 * time.Hour)
		wantCause(t, usual.Context(), fenlock.ErrMaxHold)
		wantCause(t, long.Context(), nil)
		wantErr(t, long.Release(t.Context()))
	})
}

func TestWaitIsBounded(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		l := c.locker()
		_, err := l.Acquire(t.Context(), name, fenlock.WithWait(3*time.Second))
		c.wantNow(3 * time.Second)
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		wantErr(t, t.Context().Err())
		time.AfterFunc(time.Second, func() { lock.Release(context.Background()) })
		got, err := l.Acquire(context.WithValue(t.Context(), key{}, "trace"), name, fenlock.WithWait(3*time.Second))
		wantErr(t, err)
		time.Sleep(5 * time.Second) // the bound is the wait's, not the tenure's
		wantCause(t, got.Context(), nil)
		if got.Context().Value(key{}) != "trace" {
			t.Error("the lock's context lacks the caller's values")
		}
		wantErr(t, got.Release(t.Context()))
	})
}

func TestInvalidOptionsSendNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker() // a MaxTTL of 30 s, a node timeout of 500 ms
		for text, opts := range map[string][]fenlock.Option{
			"is 50ms, at least 100ms":                {fenlock.WithTTL(50 * time.Millisecond)},
			"whole number of milliseconds":           {fenlock.WithTTL(2*time.Second + 1)},
			"longer than Config.MaxTTL, 30s":         {fenlock.WithTTL(31 * time.Second)},
			"four times Config.NodeTimeout, 500m":    {fenlock.WithTTL(time.Second)},
			"shorter than the TTL, 10s":              {fenlock.WithMaxHold(9 * time.Second)},
			"would end the lock at once":             {fenlock.WithMaxHold(0)},
			"empty":                                  {fenlock.WithLabel("")},
			"control character":                      {fenlock.WithLabel("a\nb")},
			"has 129 bytes":                          {fenlock.WithLabel(strings.Repeat("x", 129))},
			"TryAcquire does not wait":               {fenlock.WithWait(0)},
			"an option is nil":                       {nil},
			"it must be longer than that":            {fenlock.WithMinHold(0)},
			"hold is 31s, longer than Config.MaxTTL": {fenlock.WithMinHold(31 * time.Second)},
			"longer than the maximum hold, 15s": {fenlock.WithMaxHold(15 * time.Second),
				fenlock.WithMinHold(20 * time.Second)},
		} {
			_, err := l.Acquire(t.Context(), name, opts...)
			wantErr(t, err, fenlock.ErrInvalid)
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%v; want %q in it", err, text)
			}
			_, err = l.AcquireAll(t.Context(), []string{name}, opts...)
			wantErr(t, err, fenlock.ErrInvalid)
			_, err = l.AcquireAny(t.Context(), []string{name}, opts...)
			wantErr(t, err, fenlock.ErrInvalid)
		}
		c.wantRequests(allOps, 0)
	})
}

// A lock with a minimum hold is kept that long: after its release, and if its holder dies, and
// no longer, whatever its TTL.
func TestMinHold(t *testing.T) {
	const min = 5 * time.Minute
	for _, ttl := range []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker(func(config *fenlock.Config) { config.TTL, config.MaxTTL = ttl, min })
			c.set(0, 3, allOps, fault{request: time.Millisecond})
			kept := func(until time.Duration) {
				t.Helper()
				time.Sleep(5 * time.Millisecond)
				for i := range c.nodes {
					if ends := time.Since(c.start) + c.lease(i, name).Remaining; ends < until || ends > until+3*time.Millisecond {
						t.Errorf("node %d has the lease until %v, want %v", i, ends, until)
					}
				}
				time.Sleep(until - time.Since(c.start) - time.Millisecond)
				_, err := l.TryAcquire(t.Context(), name)
				wantErr(t, err, fenlock.ErrHeld)
				time.Sleep(5 * time.Millisecond)
				wantErr(t, take(t, l, name).Release(t.Context()))
			}
			// Released at once.
			began := time.Since(c.start)
			lock, err := l.Acquire(t.Context(), name, fenlock.WithMinHold(min))
			wantErr(t, err)
			if got, most := lock.Remaining(), ttl; got > most {
				t.Errorf("%v remain, with a TTL of %v", got, most)
			}
			wantErr(t, lock.Release(t.Context()))
			wantErr(t, context.Cause(lock.Context()), fenlock.ErrReleased)
			wantErr(t, lock.Release(t.Context()), fenlock.ErrReleased)
			kept(began + min)

			// Released after a while.
			began = time.Since(c.start)
			lock, err = l.Acquire(t.Context(), name, fenlock.WithMinHold(min))
			wantErr(t, err)
			time.Sleep(min * 9 / 10)
			wantErr(t, lock.Release(t.Context()))
			kept(began + min)

			// Released after it: as usual.
			lock, err = l.Acquire(t.Context(), name, fenlock.WithMinHold(min))
			wantErr(t, err)
			time.Sleep(min + time.Minute)
			wantErr(t, lock.Release(t.Context()))
			time.Sleep(5 * time.Millisecond)
			wantErr(t, take(t, l, name).Release(t.Context()))

			// Nothing is heard of its process any more.
			began = time.Since(c.start)
			lock, err = l.Acquire(t.Context(), name, fenlock.WithMinHold(min))
			wantErr(t, err)
			time.Sleep(20 * time.Second)
			c.set(0, 3, extend, down)
			time.Sleep(ttl)
			wantCause(t, lock.Context(), fenlock.ErrLost)
			c.set(0, 3, allOps, fault{request: time.Millisecond})
			c.set(0, 3, extend, fault{request: time.Millisecond})
			kept(began + min)
		})
	}
}

// A release while the nodes are down says that it is not known whether they keep it; one after
// a loss asks for nothing.
func TestMinHoldFails(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(func(config *fenlock.Config) { config.MaxTTL = time.Minute })
		c.set(0, 2, extend, down)
		_, err := l.Acquire(t.Context(), name, fenlock.WithMinHold(time.Minute))
		wantErr(t, err, fenlock.ErrNoQuorum)
		c.wantLeases(0)
		c.set(0, 2, extend, fault{})
		lock, err := l.Acquire(t.Context(), name, fenlock.WithMinHold(time.Minute))
		wantErr(t, err)
		synctest.Wait() // a majority was enough to return
		c.set(0, 2, extend, down)
		err = lock.Release(t.Context())
		wantErr(t, err, fenlock.ErrNoQuorum)
		var q *fenlock.QuorumError
		if !errors.As(err, &q) || q.Op != "extend" || len(q.Errors) != 2 {
			t.Errorf("%v; want the two nodes that were not asked to keep it", err)
		}
		c.wantLeases(3) // it is there all the same, from before
		c.set(0, 2, extend, fault{})
		time.Sleep(time.Minute + time.Second)

		lock, err = l.Acquire(t.Context(), name, fenlock.WithMinHold(time.Minute))
		wantErr(t, err)
		synctest.Wait() // a majority was enough to return
		c.set(0, 2, extend, down)
		time.Sleep(ttl)
		c.set(0, 2, extend, fault{})
		before := c.requests(allOps)
		wantErr(t, lock.Release(t.Context()), fenlock.ErrLost)
		if c.requests(allOps) != before {
			t.Error("the nodes were asked")
		}
		c.wantLeases(3)
		time.Sleep(time.Minute + time.Second)

		// Of several, none is kept that was not acquired, nor the others.
		lock = take(t, l, "b")
		_, err = l.AcquireAll(t.Context(), []string{name, "b"}, fenlock.WithMinHold(time.Minute),
			fenlock.WithWait(5*time.Second))
		wantErr(t, err, fenlock.ErrHeld)
		c.wantLeases(0)
		wantErr(t, lock.Release(t.Context()))
		locks, err := l.AcquireAll(t.Context(), []string{name, "b"}, fenlock.WithMinHold(time.Minute))
		wantErr(t, err)
		wantErr(t, locks.Release(t.Context()))
		c.wantLeases(3)
		_, err = l.AcquireAny(t.Context(), []string{name, "b"}, fenlock.WithWait(50*time.Second))
		wantErr(t, err, fenlock.ErrHeld)
		one, err := l.AcquireAny(t.Context(), []string{name, "b"}, fenlock.WithMinHold(time.Minute))
		wantErr(t, err)
		wantErr(t, one.Release(t.Context()))
		time.Sleep(30 * time.Second)
		if c.leases(one.Name()) != 3 {
			t.Errorf("%s is not kept", one.Name())
		}
	})
}

// After a forced release, a release keeps nothing: the extend that is to keep the leases makes new
// ones.
func TestMinHoldAfterForceRelease(t *testing.T) {
	bubbles(t, 3, map[string]func(*cluster){
		"nothing else":      func(*cluster) {},
		"one was not asked": func(c *cluster) { c.set(2, 3, "look", down); c.set(2, 3, "force release", down) },
		"one is down":       func(c *cluster) { c.set(2, 3, allOps, down) },
	}, func(t *testing.T, c *cluster, prepare func(*cluster)) {
		a := c.admin()
		var told []string
		lock, err := c.locker(func(config *fenlock.Config) {
			config.Observer.Lost = func(_ context.Context, e fenlock.LostEvent) {
				told = append(told, "lost")
				wantErr(t, e.Err, fenlock.ErrLost)
			}
			config.Observer.Release = func(_ context.Context, e fenlock.ReleaseEvent) {
				told = append(told, "released")
				if !e.Lost() || e.Left != 0 {
					t.Errorf("%+v", e)
				}
			}
		}).Acquire(t.Context(), name, fenlock.WithMinHold(5*time.Second))
		wantErr(t, err)
		synctest.Wait()
		prepare(c)
		if _, err := a.ForceRelease(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		wantErr(t, lock.Release(t.Context()), fenlock.ErrLost)
		synctest.Wait()
		if strings.Join(told, ", ") != "lost, released" {
			t.Errorf("the observer was told: %q", told)
		}
		for i := range 2 {
			if l := c.lease(i, name); l.Leased {
				t.Errorf("node %d has a lease: %+v", i, l)
			}
		}
		next := take(t, c.locker(), name)
		wantErr(t, lock.Release(t.Context()), fenlock.ErrReleased)
		wantErr(t, next.Extend(t.Context()))
		wantErr(t, next.Release(t.Context()))
	})
	// The next one has it already.
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.queuer().Acquire(t.Context(), name, fenlock.WithMinHold(5*time.Second))
		wantErr(t, err)
		_, err = c.admin().ForceRelease(t.Context(), name)
		wantErr(t, err)
		next := take(t, c.queuer(), name)
		wantErr(t, lock.Release(t.Context()), fenlock.ErrLost)
		wantErr(t, next.Extend(t.Context()))
		wantErr(t, next.Release(t.Context()))
	})
	// One node has a new lease, of which nothing is left either; the others keep theirs.
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock, err := c.locker().Acquire(t.Context(), name, fenlock.WithMinHold(5*time.Second))
		wantErr(t, err)
		synctest.Wait()
		_, err = c.nodes[2].view.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: name})
		wantErr(t, err)
		wantErr(t, lock.Release(t.Context()))
		synctest.Wait()
		c.wantLeases(2)
	})
}

// A waiter that got such a lock is in no queue any more, although it may not release it.
func TestMinHoldLeavesTheQueues(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.queuer(func(config *fenlock.Config) { config.MaxTTL = time.Minute })
		c.leased(2, 3, "somebody who is dead", 30*time.Second) // it waits in the queue there
		lock := take(t, l, name)
		time.AfterFunc(time.Second, func() { lock.Release(context.Background()) })
		next, err := l.Acquire(t.Context(), name, fenlock.WithMinHold(time.Minute))
		wantErr(t, err)
		wantErr(t, next.Release(t.Context()))
		time.Sleep(time.Second)
		for i, f := range c.nodes {
			if _, n, err := f.view.Waiting(t.Context(), name, 10); err != nil || n != 0 {
				t.Errorf("%d in the queue on node %d, %v", n, i, err)
			}
		}
	})
}

// An attempt that takes longer is given up, also where no caller waits.
func TestWaitBoundsTheAttempt(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.set(0, 3, acquire, fault{request: 10 * time.Millisecond})
		_, err := c.locker().TryAcquire(t.Context(), name, fenlock.WithWait(9*time.Millisecond))
		c.wantNow(9 * time.Millisecond)
		wantErr(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		c.wantLeases(0)
		_, err = c.locker().TryAcquire(t.Context(), name, fenlock.WithWait(11*time.Millisecond))
		wantErr(t, err)
	})
}

// A Locker that is closed before the leases are long takes no such lock.
func TestMinHoldOfAClosedLocker(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var l *fenlock.Locker
		l = c.locker(func(config *fenlock.Config) {
			config.MaxTTL = time.Minute
			config.Observer.Acquire = func(context.Context, fenlock.AcquireEvent) {
				go l.Close()
				time.Sleep(time.Second)
			}
		})
		_, err := l.Acquire(t.Context(), name, fenlock.WithMinHold(time.Minute))
		wantErr(t, err, fenlock.ErrClosed)
		c.wantRequests(extend, 0)
	})
}

// Of several names, the minimum hold begins with the last. Before, no lease is longer than a TTL,
// and a client that does not get all keeps no part for long.
func TestMinHoldOfSeveral(t *testing.T) {
	for _, min := range []time.Duration{ttl / 2, time.Minute} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			inOrder(t, c, func() {
				l := c.locker(func(config *fenlock.Config) { config.MaxTTL = min + ttl })
				locks, err := l.AcquireAll(t.Context(), []string{"a", "b"}, fenlock.WithMinHold(min))
				wantErr(t, err)
				until := c.now() + min
				wantErr(t, locks.Release(t.Context()))
				synctest.Wait()
				for _, name := range []string{"a", "b"} {
					if ends := c.now() + c.lease(0, name).Remaining; ends < until-2*time.Millisecond || ends > until {
						t.Errorf("%s is kept until %v, want %v", name, ends, until)
					}
				}
			}, func(b *fenlock.Lock) {
				time.Sleep(8 * time.Second)
				if left := c.lease(0, "a").Remaining; left > ttl {
					t.Errorf("a is leased for %v while b is waited for", left)
				}
				wantErr(t, b.Release(t.Context()))
			})
		})
	}
}

// A caller that gave up does not wait for nodes that hang either.
func TestWaitDoesNotWaitForReleases(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, l *fenlock.Locker, within fenlock.Option) error{
		"Acquire": func(ctx context.Context, l *fenlock.Locker, within fenlock.Option) error {
			_, err := l.Acquire(ctx, "a", within, fenlock.WithMinHold(30*time.Second))
			return err
		},
		"AcquireAll": func(ctx context.Context, l *fenlock.Locker, within fenlock.Option) error {
			_, err := l.AcquireAll(ctx, []string{"a", name}, within)
			return err
		},
	} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			c.held()
			c.set(0, 3, extend, fault{hang: true})
			c.set(0, 3, release, fault{hang: true})
			wantErr(t, call(t.Context(), c.locker(), fenlock.WithWait(100*time.Millisecond)), context.DeadlineExceeded)
			if c.now() != 100*time.Millisecond {
				t.Errorf("%s has waited for %v", what, c.now())
			}
		})
	}
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
