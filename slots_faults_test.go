package fenlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

// A client that waits for a slot holds nothing, and leaves nothing when it gives up.
func TestSlotsGivenUp(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		slot, err := c.slots(t, 1).Acquire(t.Context())
		wantErr(t, err)
		_, err = c.slots(t, 1).Acquire(t.Context(), fenlock.WithWait(time.Minute))
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.slots(t, 1).Acquire(ctx)
		wantErr(t, err, context.Canceled)
		if _, err = c.slots(t, 1).TryAcquire(t.Context()); !errors.Is(err, fenlock.ErrHeld) ||
			!strings.Contains(err.Error(), "none of the 1 slots") {
			t.Errorf("%v", err)
		}
		slot.Release(t.Context())
		time.Sleep(time.Second)
		for _, free := range []string{name, name + "#0"} {
			k, err := c.queuer().TryAcquire(t.Context(), free)
			wantErr(t, err)
			k.Release(t.Context())
		}
	})
}

// A client that loses its slot, or the name that all holders share, has lost it.
func TestSlotLost(t *testing.T) {
	for _, what := range []string{name, name + "#0"} {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			slot, err := c.slots(t, 1).Acquire(t.Context())
			wantErr(t, err)
			if slot.Remaining() <= 0 || slot.Context().Err() != nil {
				t.Error("it is not held")
			}
			c.nodes[0].view.Do(t.Context(), node.Request{Op: node.ForceRelease, Name: what})
			time.Sleep(time.Minute)
			if !errors.Is(context.Cause(slot.Context()), fenlock.ErrLost) || slot.Remaining() > 0 {
				t.Errorf("%q was taken away: %v", what, context.Cause(slot.Context()))
			}
			// A holder that has not stopped yet is alone.
			if n := c.leases(name + "#0"); what == name && n != 1 || what != name && n != 0 {
				t.Errorf("%q was taken away: the slot has %d leases", what, n)
			}
			wantErr(t, slot.Release(t.Context()), fenlock.ErrLost)
			c.wantFree(name, name+"#0")
		})
	}
}

// What was held for too long, because the machine was suspended before the second was there, is no
// slot.
func TestSlotWhileSuspended(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first, err := c.slots(t, 1).Acquire(t.Context())
		wantErr(t, err)
		suspend := sync.OnceFunc(func() { c.suspend(time.Minute) })
		waits, err := c.queuer(func(config *fenlock.Config) {
			config.Observer.Acquire = func(_ context.Context, e fenlock.AcquireEvent) {
				if e.Name == name+"#0" && e.Err == nil {
					suspend() // it has the slot, and is about to ask for the name
				}
			}
		}).Slots(name, 1)
		wantErr(t, err)
		time.AfterFunc(time.Second, func() { first.Release(context.Background()) })
		slot, err := waits.Acquire(t.Context())
		wantErr(t, err)
		if slot.Remaining() <= 0 || c.suspended == 0 {
			t.Errorf("%v are left after %v of sleep", slot.Remaining(), c.suspended)
		}
		slot.Release(t.Context())
	})
}

// An observer's panic reaches the caller, which may recover from it: nothing is kept, and Close
// does not wait.
func TestSlotsWithAPanic(t *testing.T) {
	for i := range 80 { // either of them is the first to be released
		at := i % 4 // it hears of two acquisitions, and of two releases
		bubble(t, 3, func(t *testing.T, c *cluster) {
			t.Log("event", at)
			for _, f := range c.nodes { // so that no two things happen at the same moment
				f.event = func() { time.Sleep(1 + rand.N(10*time.Millisecond)) }
			}
			var events atomic.Int32
			tell := func() {
				if int(events.Add(1)) == at+1 {
					panic("oops")
				}
			}
			l := c.queuer(func(config *fenlock.Config) {
				config.Observer.Acquire = func(context.Context, fenlock.AcquireEvent) { tell() }
				config.Observer.Release = func(context.Context, fenlock.ReleaseEvent) { tell() }
			})
			s, err := l.Slots(name, 2)
			wantErr(t, err)
			wantPanic(t, func() {
				if slot, err := s.Acquire(t.Context()); err == nil {
					slot.Release(t.Context())
				}
			})
			time.Sleep(3 * time.Second) // less than a lease lasts
			c.wantFree(name, name+"#0", name+"#1")
			l.Close() // or the bubble is stuck
		})
	}
}

// faultyFor is a node that has nothing but errors for one name: another program's data are there.
type faultyFor struct {
	*faulty
	name string
}

func (f faultyFor) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if r.Name == f.name {
		time.Sleep(time.Millisecond)
		return node.Answer{}, errDown
	}
	return f.faulty.Do(ctx, r)
}

func (f faultyFor) Engine() any { return queuerNode{f.faulty}.Engine() }

// A slot that cannot be had, while the others are taken, is asked for again with pauses, as any
// lock.
func TestSlotsOneOfWhichIsBroken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first := take(t, c.queuer(), name+"#0")
		s, err := c.lockerOn(func(f *faulty) fenlock.Node { return faultyFor{f, name + "#1"} }).Slots(name, 2)
		wantErr(t, err)
		before := c.requests(acquire)
		_, err = s.Acquire(t.Context(), fenlock.WithWait(time.Minute))
		wantErr(t, err, context.DeadlineExceeded)
		if asked := c.requests(acquire) - before; asked > 500 {
			t.Errorf("%d requests", asked)
		}
		time.AfterFunc(10*time.Second, func() { first.Release(context.Background()) })
		slot, err := s.Acquire(t.Context())
		wantErr(t, err)
		if slot.Number() != 0 {
			t.Errorf("slot %d", slot.Number())
		}
		wantErr(t, slot.Release(t.Context()))
	})
}

// A caller that gives up hears why it had to wait, also in the moment in which it is about to have
// a slot.
func TestSlotsGivenUpAtAnyMoment(t *testing.T) {
	for d := 50 * time.Millisecond; d < 200*time.Millisecond; d += time.Millisecond {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			t.Log("given up after", d)
			for _, f := range c.nodes {
				f.event = func() { time.Sleep(2 * time.Millisecond) }
			}
			first, err := c.slots(t, 1).Acquire(t.Context())
			wantErr(t, err)
			time.AfterFunc(100*time.Millisecond, func() { first.Release(context.Background()) })
			slot, err := c.slots(t, 1).Acquire(t.Context(), fenlock.WithWait(d))
			if err != nil {
				wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
			} else {
				wantErr(t, slot.Release(t.Context()))
			}
			time.Sleep(3 * time.Second) // less than a lease lasts
			c.wantFree(name, name+"#0")
		})
	}
}

// A client that finds its slot taken asks for several others at once, and keeps one.
func TestSlotsAskedForInVain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first, err := c.slots(t, 3).Acquire(t.Context())
		wantErr(t, err)
		for range 30 { // a third of them asks for that one first
			slot, err := c.slots(t, 3).TryAcquire(t.Context())
			wantErr(t, err)
			free := 3 - first.Number() - slot.Number() // the third one
			k, err := c.queuer().TryAcquire(t.Context(), name+"#"+strconv.Itoa(free))
			wantErr(t, err)
			k.Release(t.Context())
			slot.Release(t.Context())
			synctest.Wait()
		}
		first.Release(t.Context())
	})
}
