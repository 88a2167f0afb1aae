package fenlock_test

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// The context ends before the leases do, by the drift, however the nodes fail
// (bug 11). One nanosecond before that it is alive.
func TestContextEndsBeforeTheLeases(t *testing.T) {
	for _, how := range []fault{down, {hang: true}} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.held()
			c.set(0, 3, allOps, how)
			time.Sleep(validity - 1)
			wantCause(t, lock.Context(), nil)
			time.Sleep(time.Nanosecond)
			wantCause(t, lock.Context(), fenlock.ErrLost)
			cause := context.Cause(lock.Context())
			wantNot(t, cause, fenlock.ErrNoQuorum, fenlock.ErrHeld, fenlock.ErrReleased, fenlock.ErrMaxHold,
				context.DeadlineExceeded)
			for i := range c.nodes {
				if got := c.lease(i, name).Remaining; got != drift {
					t.Errorf("node %d: the lease has %v left, want %v", i, got, drift)
				}
			}
			if how == down && !strings.Contains(cause.Error(), errDown.Error()) {
				t.Errorf("the cause does not tell what the nodes said: %v", cause)
			}
		})
	}
}

// The holder must stop in time even if its log blocks: a full pipe at stderr is
// no reason to write without a lock. So the context ends before the log is told.
func TestContextEndsBeforeTheLoggerIsTold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var lock *fenlock.Lock
		told := 0
		lock = c.held(func(config *fenlock.Config) {
			config.Logger = slog.New(funcHandler(func(r slog.Record) {
				if !strings.Contains(r.Message, "not held") {
					return
				}
				told++
				if lock.Context().Err() == nil {
					t.Error("the context is alive while the log is told of the loss")
				}
			}))
		})
		c.set(0, 3, allOps, down)
		time.Sleep(validity)
		wantCause(t, lock.Context(), fenlock.ErrLost)
		if told != 1 {
			t.Errorf("the log was told %d times", told)
		}
	})
}

// A handler may look at the lock, and a slow one must not block the lock's users.
// Not in a bubble: who waits for a mutex there stops the clock for good.
func TestLoggerIsToldWithoutTheMutex(t *testing.T) {
	var lock atomic.Pointer[fenlock.Lock]
	taken, told := make(chan struct{}), make(chan bool, 1)
	logger := slog.New(funcHandler(func(slog.Record) {
		<-taken
		asked := make(chan struct{})
		go func() {
			lock.Load().Remaining()
			close(asked)
		}()
		select {
		case <-asked:
			told <- true
		case <-time.After(time.Minute): // a hang: it waits for the mutex
			told <- false
		}
	}))
	n := memnode.New("a")
	lock.Store(take(t, newLocker(t, fenlock.Config{Nodes: []fenlock.Node{n}, Logger: logger}), name))
	close(taken)
	if _, err := n.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: name}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, lock.Load().Extend(t.Context()), fenlock.ErrLost)
	if !<-told {
		t.Error("the lock is blocked while the logger works")
	}
}

// funcHandler is a log that calls a function.
type funcHandler func(r slog.Record)

func (funcHandler) Enabled(context.Context, slog.Level) bool        { return true }
func (f funcHandler) Handle(_ context.Context, r slog.Record) error { f(r); return nil }
func (f funcHandler) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f funcHandler) WithGroup(string) slog.Handler                 { return f }

// The tenure ends exactly at MaxHold, counted from the first request, with the nodes well; and the
// leases end a TTL later at most, without any help.
func TestContextEndsExactlyAtMaxHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.set(0, 3, allOps, fault{request: 50 * time.Millisecond})
		lock := c.held(maxHold(time.Minute))
		time.Sleep(time.Minute - 50*time.Millisecond - 1)
		// The one before had nothing left to gain for another.
		if times := c.nodes[0].times(extend); times[len(times)-1] != 16*third {
			t.Errorf("extended at %v; want %v to be the last", times, 16*third)
		}
		wantCause(t, lock.Context(), nil)
		wantRemaining(t, lock, 1)
		time.Sleep(time.Nanosecond)
		wantCause(t, lock.Context(), fenlock.ErrMaxHold)
		wantNot(t, context.Cause(lock.Context()), fenlock.ErrLost, fenlock.ErrReleased)
		wantRemaining(t, lock, 0)
		time.Sleep(ttl)
		c.wantLeases(0)
	})
}

// A holder that extends by hand gets no further than MaxHold either.
func TestExtendByHandDoesNotPassMaxHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held(maxHold(20 * time.Second))
		for range 19 {
			time.Sleep(time.Second)
			wantErr(t, lock.Extend(t.Context()))
		}
		wantRemaining(t, lock, time.Second)
		time.Sleep(time.Second)
		wantCause(t, lock.Context(), fenlock.ErrMaxHold)
	})
}

type key struct{}

// The values go on (for tracing), the end does not. An HTTP request's lock may outlive the request,
// and its release must not depend on it.
func TestContextHasTheParentsValuesNotItsEnd(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
		lock, err := c.locker().Acquire(parent, name)
		wantErr(t, err)
		if got := lock.Context().Value(key{}); got != "trace" {
			t.Errorf("the value is %v", got)
		}
		if _, ok := lock.Context().Deadline(); ok {
			t.Error("the context has a deadline")
		}
		cancel()
		time.Sleep(3 * ttl)
		wantCause(t, lock.Context(), nil)
		lock.Release(parent) // returns parent's error, or nil if the nodes were faster
		c.wantLeases(0)
	})
}

// The machine slept for longer than the validity. Timers stood still, the leases did not. The
// lock's own clock knows at once. The context follows within a quarter of the TTL of time awake.
func TestSuspendedMachineLosesTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		c.suspend(20 * time.Second)
		wantRemaining(t, lock, 0)
		time.Sleep(ttl / 4)
		wantCause(t, lock.Context(), fenlock.ErrLost)
		c.wantRequests(extend, 0)
	})
	// The longer: a tenure that ended long before MaxHold was lost, whenever that is noticed.
	for _, asleep := range []time.Duration{validity, 2 * time.Hour} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.held(maxHold(time.Hour))
			c.suspend(asleep)
			wantErr(t, lock.Extend(t.Context()), fenlock.ErrLost)
			c.wantNow(0)
			wantCause(t, lock.Context(), fenlock.ErrLost)
		})
	}
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		c.suspend(validity - 1)
		wantErr(t, lock.Extend(t.Context())) // still held: the extension saves it
		wantRemaining(t, lock, validity)
	})
}

// Config.Clock may start anywhere. Around 0 and below it, a validity is as long as elsewhere. A
// validity that reached up to 0 would be believed in long after the leases ended.
func TestClockFromAnyEpoch(t *testing.T) {
	check := func(epoch, longest time.Duration) {
		bubble(t, 5, func(t *testing.T, c *cluster) {
			t.Logf("from %v, MaxHold %v", epoch, longest)
			lock := c.held(func(config *fenlock.Config) {
				config.Clock = func() time.Duration { return epoch + c.now() }
				config.MaxHold = longest
			})
			wantRemaining(t, lock, validity)
			wantErr(t, lock.Extend(t.Context()))
			time.Sleep(10 * ttl) // all five nodes answer each extension
			wantCause(t, lock.Context(), nil)
			c.set(0, 5, extend, down)
			time.Sleep(validity)
			wantCause(t, lock.Context(), fenlock.ErrLost)
			c.set(0, 5, extend, fault{})
			wantErr(t, lock.Release(t.Context()), fenlock.ErrLost)
		})
	}
	for _, epoch := range []time.Duration{-100 * time.Hour, -ttl, -time.Second, -1, 0, 1, time.Hour} {
		check(epoch, 0)
		check(epoch, -1) // unbounded, and so is, in effect, the largest duration
		check(epoch, math.MaxInt64)
	}
}
