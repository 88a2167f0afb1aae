package fenlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
)

// All that are free are there after one round trip, in whichever order and however often they
// are named, each with its own token.
func TestAcquireAll(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.set(0, 3, allOps, fault{request: time.Millisecond})
		locks, err := c.locker().AcquireAll(context.WithValue(t.Context(), key{}, "trace"), []string{"c", "a", "b", "a"})
		wantErr(t, err)
		c.wantNow(time.Millisecond)
		synctest.Wait() // the majority was enough
		c.wantRequests(acquire, 3*3)
		if got := locks.Names(); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("the names are %q", got)
		}
		for _, name := range locks.Names() {
			if token := locks.Token(name); !token.Valid() || token != c.lease(0, name).Register ||
				locks.Lock(name).Token() != token {
				t.Errorf("the token of %s is %d", name, token)
			}
		}
		if locks.Lock("d") != nil || locks.Token("d").Valid() {
			t.Error("there is a lock that nobody has asked for")
		}
		if got := locks.Remaining(); got != validity-time.Millisecond {
			t.Errorf("%v remain", got)
		}
		if locks.Context().Value(key{}) != "trace" {
			t.Error("the context lacks the caller's values")
		}
		time.Sleep(time.Minute) // far beyond the TTL
		wantCause(t, locks.Context(), nil)
		wantErr(t, locks.Release(t.Context()))
		wantErr(t, context.Cause(locks.Context()), fenlock.ErrReleased)
		time.Sleep(time.Second) // a majority was enough to return
		c.wantFree(locks.Names()...)
		wantErr(t, locks.Release(t.Context()), fenlock.ErrReleased)
	})
}

// If one of them ends, what was done under all of them has to end.
func TestAcquireAllEndsWithTheFirst(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		locks, err := c.locker().AcquireAll(t.Context(), []string{"a", "b"})
		wantErr(t, err)
		c.set(0, 3, extend, down)
		time.Sleep(ttl)
		wantCause(t, locks.Context(), fenlock.ErrLost)
		if locks.Remaining() != 0 {
			t.Error("a validity remains")
		}
		wantErr(t, locks.Release(t.Context()), fenlock.ErrLost)
	})
}

// While it waits for one name, for an hour, the others are free.
func TestAcquireAllWaitsHoldingNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		holder := c.queuer()
		names := []string{"a", "b", "c", "d", "e"}
		b, err := holder.Acquire(t.Context(), "b", fenlock.WithMaxHold(-1))
		wantErr(t, err)
		d, err := holder.Acquire(t.Context(), "d", fenlock.WithMaxHold(-1))
		wantErr(t, err)
		time.AfterFunc(time.Hour, func() { b.Release(context.Background()) })
		time.AfterFunc(2*time.Hour, func() { d.Release(context.Background()) })
		free, looks := 0, 0
		looker := c.queuer()
		done := make(chan struct{})
		go func() {
			defer close(done)
			locks, err := c.queuer().AcquireAll(t.Context(), names)
			wantErr(t, err)
			if now := c.now(); now < 2*time.Hour || now > 2*time.Hour+time.Minute {
				t.Errorf("it has all at %v", now)
			}
			wantErr(t, locks.Release(t.Context()))
		}()
		for ; looks < 200; looks++ {
			time.Sleep(35*time.Second + rand.N(time.Second))
			if all, err := looker.AcquireAll(t.Context(), []string{"a", "c", "e"}, fenlock.WithWait(time.Second)); err == nil {
				free++
				wantErr(t, all.Release(t.Context()))
			}
		}
		if free < looks*9/10 {
			t.Errorf("the others could be had %d of %d times", free, looks)
		}
		<-done
	})
}

// Many clients want each other's names, in every order. All of them get their turn, no name has two
// holders, and no client holds a part.
func TestAcquireAllOfRandomSets(t *testing.T) {
	for _, queues := range []bool{true, false} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			names := []string{"a", "b", "c", "d", "e"}
			var holders [5]atomic.Int32
			var tokens [5]atomic.Uint64
			var all sync.WaitGroup
			for range 8 {
				l := c.locker()
				if queues {
					l = c.queuer()
				}
				all.Go(func() {
					for range 20 {
						var mine []string
						for _, i := range rand.Perm(len(names))[:1+rand.IntN(len(names))] {
							mine = append(mine, names[i])
						}
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						locks, err := l.AcquireAll(ctx, mine)
						cancel()
						if err != nil {
							t.Errorf("%q: %v", mine, err)
							return
						}
						for _, name := range mine {
							i := slices.Index(names, name)
							if n := holders[i].Add(1); n != 1 {
								t.Errorf("%d hold %s", n, name)
							}
							if token := uint64(locks.Token(name)); tokens[i].Swap(token) >= token {
								t.Errorf("the token %d of %s is not larger than the last", token, name)
							}
						}
						time.Sleep(rand.N(50 * time.Millisecond))
						for _, name := range mine {
							holders[slices.Index(names, name)].Add(-1)
						}
						wantErr(t, locks.Release(t.Context()))
						time.Sleep(rand.N(10 * time.Millisecond))
					}
				})
			}
			all.Wait()
			c.wantFree(names...)
		})
	}
}

// Whatever it fails with, nothing is left, and the error says of which name.
func TestAcquireAllFails(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock := take(t, l, "b")
		_, err := l.AcquireAll(t.Context(), []string{"a", "b"}, fenlock.WithWait(time.Minute))
		c.wantNow(time.Minute)
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		wantErr(t, lock.Release(t.Context()))

		c.set(0, 2, acquire, down)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = l.AcquireAll(ctx, []string{"a", "b"})
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrNoQuorum)
		c.set(0, 2, acquire, fault{err: fenlock.ErrMisconfigured})
		_, err = l.AcquireAll(t.Context(), []string{"a", "b"})
		wantErr(t, err, fenlock.ErrNoQuorum, fenlock.ErrMisconfigured)
		c.set(0, 2, acquire, fault{})
		synctest.Wait()
		c.wantFree("a", "b")

		before := c.requests(allOps)
		var many []string
		for i := range fenlock.MaxNames + 1 {
			many = append(many, fmt.Sprint(i))
		}
		for _, names := range [][]string{nil, many, {"a", ""}, {"a", "\n"}} {
			_, err := l.AcquireAll(t.Context(), names)
			wantErr(t, err, fenlock.ErrInvalid)
			_, err = l.AcquireAny(t.Context(), names)
			wantErr(t, err, fenlock.ErrInvalid)
		}
		done, stop := context.WithCancel(t.Context())
		stop()
		_, err = l.AcquireAll(done, []string{"a", "b"})
		wantErr(t, err, context.Canceled)
		if c.requests(allOps) != before {
			t.Error("the nodes were asked")
		}
		locks, err := l.AcquireAll(t.Context(), many[:fenlock.MaxNames])
		wantErr(t, err)
		wantErr(t, locks.Release(t.Context()))
	})
}

// An observer that panics has no part of the locks kept.
func TestAcquireAllWithAPanic(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "b")
		l := c.locker(func(config *fenlock.Config) {
			config.Observer.Acquire = func(_ context.Context, e fenlock.AcquireEvent) {
				if e.Name == "b" {
					panic("oops")
				}
			}
		})
		wantPanic(t, func() { l.AcquireAll(t.Context(), []string{"a", "b", "c"}) })
		synctest.Wait()
		c.wantFree("a", "c")
		wantErr(t, lock.Release(t.Context()))
	})
}

// The first of those that are free, and otherwise the one that is free first.
func TestAcquireAny(t *testing.T) {
	for _, queues := range []bool{true, false} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			l := c.locker()
			if queues {
				l = c.queuer()
			}
			names := []string{"b", "a", "c"}
			var held []*fenlock.Lock
			for _, want := range names {
				lock, err := l.AcquireAny(t.Context(), names)
				wantErr(t, err)
				if lock.Name() != want {
					t.Errorf("it is %s, want %s", lock.Name(), want)
				}
				held = append(held, lock)
			}
			_, err := l.AcquireAny(t.Context(), names, fenlock.WithWait(time.Second))
			wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
			for _, which := range []int{2, 0, 1} {
				time.AfterFunc(time.Second, func() { held[which].Release(context.Background()) })
				lock, err := l.AcquireAny(t.Context(), names)
				wantErr(t, err)
				if lock.Name() != names[which] {
					t.Errorf("it is %s, want %s", lock.Name(), names[which])
				}
				held[which] = lock
			}
			// All at once: it has one, and the others are free.
			time.AfterFunc(time.Second, func() {
				for _, k := range held {
					go k.Release(context.Background())
				}
			})
			lock, err := l.AcquireAny(t.Context(), names)
			wantErr(t, err)
			time.Sleep(2 * time.Second) // reservations end
			for _, name := range names {
				if n := c.leases(name); (n != 0) != (name == lock.Name()) {
					t.Errorf("%s is leased on %d nodes, and %s was acquired", name, n, lock.Name())
				}
			}
			wantErr(t, lock.Release(t.Context()))
		})
	}
}

// inOrder has a call of AcquireAll, of a, b and perhaps others, meet another client until it takes
// them in order. It has a then, and waits for b.
func inOrder(t *testing.T, c *cluster, call func(), meanwhile func(b *fenlock.Lock)) {
	t.Helper()
	other := c.locker()
	b := take(t, other, "b")
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	time.Sleep(time.Second)
	a := take(t, other, "a")
	wantErr(t, b.Release(t.Context())) // it gets b, but not a
	time.Sleep(time.Second)
	b = take(t, other, "b")
	wantErr(t, a.Release(t.Context())) // it gets a, but not b
	time.Sleep(time.Second)
	if meanwhile != nil {
		if n := c.leases("a"); n < 2 { // one may have refused it, to which the release before was late
			t.Errorf("a is leased on %d nodes: it does not take them in order", n)
		}
		meanwhile(b)
	}
	<-done
}

// An observer that panics while a part is held has nothing kept.
func TestAcquireAllWithAPanicInOrder(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker(func(config *fenlock.Config) {
			config.Observer.Waiting = func(_ context.Context, name string, _ error) {
				if name == "b" && c.now() > 2*time.Second {
					panic("oops")
				}
			}
		})
		inOrder(t, c, func() {
			defer func() {
				if recover() != "oops" {
					t.Error("no panic")
				}
				synctest.Wait()
				c.wantFree("a")
			}()
			l.AcquireAll(t.Context(), []string{"a", "b"})
		}, nil)
	})
}

// One that has ended while others were waited for is no lock.
func TestAcquireAllHasAllOfThem(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		third := take(t, c.locker(), "c")
		inOrder(t, c, func() {
			locks, err := c.locker().AcquireAll(t.Context(), []string{"a", "b", "c"}, fenlock.WithMaxHold(ttl))
			wantErr(t, err)
			wantCause(t, locks.Context(), nil)
			if locks.Remaining() == 0 {
				t.Errorf("at %v one of them has ended", c.now())
			}
			wantErr(t, locks.Release(t.Context()))
		}, func(b *fenlock.Lock) {
			time.Sleep(8 * time.Second)
			wantErr(t, b.Release(t.Context()))
			time.Sleep(5 * time.Second) // a is held for longer than its maximum then
			wantErr(t, third.Release(t.Context()))
		})
	})
}

// A caller that gives up is told so, and what it waited for, whatever was going on at the moment.
func TestAcquireAllGivesUp(t *testing.T) {
	for what, when := range map[string]func(e fenlock.AcquireEvent) bool{
		"when one is refused":         func(e fenlock.AcquireEvent) bool { return e.Err != nil },
		"before the others are asked": func(e fenlock.AcquireEvent) bool { return e.Err == nil && e.Name == "b" },
	} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			t.Log(what)
			b := take(t, c.locker(), "b")
			time.AfterFunc(time.Second, func() { b.Release(context.Background()) })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := c.locker(func(config *fenlock.Config) {
				config.Observer.Acquire = func(_ context.Context, e fenlock.AcquireEvent) {
					if when(e) {
						cancel()
					}
				}
			})
			_, err := l.AcquireAll(ctx, []string{"a", "b"})
			wantErr(t, err, context.Canceled, fenlock.ErrHeld)
			wantNot(t, err, context.DeadlineExceeded)
			synctest.Wait()
			c.wantFree("a")
		})
	}
}

// Once one name is known to be held, who gives up hears of that, whichever is being asked for.
func TestAcquireAnyGivesUp(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		names := []string{"a", "b", "c"}
		other := c.locker()
		for _, name := range names {
			defer take(t, other, name).Release(context.Background())
		}
		c.set(0, 3, allOps, fault{request: 50 * time.Millisecond, reply: 50 * time.Millisecond})
		for wait := 101 * time.Millisecond; wait < time.Second; wait += 20 * time.Millisecond {
			_, err := c.locker().AcquireAny(t.Context(), names, fenlock.WithWait(wait))
			wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		}
		c.set(0, 3, allOps, fault{})
	})
}

// An observer's panic reaches the caller, who may recover from it, and nothing is kept.
func TestAcquireAnyWithAPanic(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		other := c.locker()
		a, b := take(t, other, "a"), take(t, other, "b")
		l := c.locker(func(config *fenlock.Config) {
			config.Observer.Waiting = func(_ context.Context, name string, _ error) {
				if name == "b" {
					panic("oops")
				}
			}
		})
		wantPanic(t, func() { l.AcquireAny(t.Context(), []string{"a", "b"}) })
		wantErr(t, a.Release(t.Context()))
		wantErr(t, b.Release(t.Context()))
		time.Sleep(time.Second)
		c.wantFree("a", "b")
	})
}

// A name that is there more than once is asked for once.
func TestAcquireAnyOfOneName(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), name)
		synctest.Wait()
		before := c.requests(acquire)
		_, err := c.locker().AcquireAny(t.Context(), []string{name, name, name}, fenlock.WithWait(time.Millisecond))
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		synctest.Wait()
		if got := c.requests(acquire) - before; got != 2*3 {
			t.Errorf("%d acquires; want one to see who is there, and one to wait", got)
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// Once Release has returned, the context of all has ended for every observer.
func TestAcquireAllEndsWithItsRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		for range 300 {
			locks, err := l.AcquireAll(t.Context(), []string{"a", "b"})
			wantErr(t, err)
			ended, stop := context.WithCancel(t.Context())
			stop()
			locks.Release(ended)
			wantErr(t, context.Cause(locks.Context()), fenlock.ErrReleased)
			synctest.Wait()
		}
	})
}

// An observer that panics with one of several releases does not keep the Locker from closing: what
// came of the others is told.
func TestAcquireAllWithAPanicOfItsRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		told := false
		l := c.locker(func(config *fenlock.Config) {
			config.Observer.Release = func(_ context.Context, e fenlock.ReleaseEvent) {
				if e.Name == "a" {
					panic("oops")
				}
				told = true
			}
		})
		locks, err := l.AcquireAll(t.Context(), []string{"a", "b"})
		wantErr(t, err)
		synctest.Wait()
		// The release of b waits for the answer to an extension.
		c.set(0, 3, extend, fault{request: 100 * time.Millisecond})
		go locks.Lock("b").Extend(t.Context())
		synctest.Wait()
		wantPanic(t, func() { locks.Release(t.Context()) })
		wantErr(t, l.Close())
		if !told {
			t.Error("the release of b was not told")
		}
	})
}
