package fenlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
)

// An observer that panics at an adoption has the lock released. Until that is over the text is not
// adopted again: the release would take the lease of that.
func TestAdoptionThatPanics(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		text := export(t, c.held())
		panics := true
		l := c.locker(func(c *fenlock.Config) {
			c.Observer.Acquire = func(context.Context, fenlock.AcquireEvent) {
				if panics {
					panics = false
					panic("an observer's")
				}
			}
		})
		c.set(0, 3, release, fault{request: nodeTimeout / 2})
		wantPanic(t, func() { l.Adopt(t.Context(), text) })
		for range 2 { // before the release, and while it is under way
			if k, err := l.Adopt(t.Context(), text); k != nil {
				t.Error("adopted what is being released")
			} else {
				wantErr(t, err, fenlock.ErrInvalid)
			}
			synctest.Wait()
		}
		time.Sleep(nodeTimeout)
		c.wantLeases(0)
		_, err := l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
	})
}

// A lock that is being released is not adopted again by its Locker.
func TestNoAdoptionDuringTheRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		text := export(t, c.held())
		adopted := adopt(t, l, text)
		c.set(0, 3, release, fault{request: nodeTimeout / 2})
		released := make(chan error)
		go func() { released <- adopted.Release(t.Context()) }()
		synctest.Wait()
		_, err := l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrInvalid)
		wantErr(t, <-released)
		synctest.Wait() // until it has come to all nodes: the export can have missed one, see Lock.Export
		_, err = l.Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
	})
}

// A lock whose maximum hold is over before the nodes have answered is released, not adopted. To try
// again would renew the leases, again and again, and no process would ever hold the lock.
func TestAdoptionPastTheMaximumHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held(maxHold(2 * ttl))
		time.Sleep(2*ttl - time.Millisecond)
		text := export(t, lock)
		c.set(0, 2, extend, fault{hang: true}) // nothing is known: as ever
		_, err := c.locker().Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrNoQuorum)
		c.wantLeases(3)
		c.set(0, 3, extend, fault{reply: 2 * time.Millisecond})
		k, err := c.locker().Adopt(t.Context(), text)
		if k != nil {
			t.Fatal("adopted")
		}
		wantErr(t, err, fenlock.ErrMaxHold)
		wantNot(t, err, fenlock.ErrNoQuorum, fenlock.ErrLost)
		time.Sleep(nodeTimeout)
		c.wantLeases(0)
		_, err = c.locker().Adopt(t.Context(), text)
		wantErr(t, err, fenlock.ErrLost)
	})
}

// A client that had waited for what it exports leaves the queues of nodes that were not needed. No
// release of its own does that, and it would be notified in vain.
func TestExporterLeavesTheQueues(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first := take(t, c.queuer(), name)
		synctest.Wait()
		waits := c.comes(c.queuer())
		time.Sleep(time.Second)
		c.nodes[2].set(release, down) // it does not hear that the name is free
		c.gives(first)
		c.wantsIn(waits, 0, ttl)
		if n := c.inQueue(2); n != 1 {
			t.Fatalf("%d in the queue", n)
		}
		c.nodes[2].heal()
		text := export(t, waits.lock)
		c.wantQueue(0)
		adopted := adopt(t, c.queuer(), text)
		wantErr(t, adopted.Release(t.Context()))
	})
}

// A text by which a lock was adopted and released is of no use, although the export missed one
// node, and the release another. If a third request was missed, the release does not say that it
// has succeeded.
func TestAdoptedOnce(t *testing.T) {
	for _, missed := range []bool{false, true} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := take(t, c.locker(), name)
			synctest.Wait()
			c.set(2, 3, extend, down)
			text := export(t, lock)
			if !missed {
				c.set(2, 3, extend, fault{})
			}
			adopted := adopt(t, c.locker(), text)
			synctest.Wait()
			c.set(2, 3, extend, fault{})
			c.set(0, 1, release, down)
			err := adopted.Release(t.Context())
			synctest.Wait()
			if c.lease(0, name).Remaining == 0 || c.lease(1, name).Remaining > 0 || c.lease(2, name).Remaining > 0 {
				t.Fatal("the wrong nodes have been released")
			}
			if missed {
				wantErr(t, err, fenlock.ErrNoQuorum)
				return
			}
			wantErr(t, err)
			_, err = c.locker().Adopt(t.Context(), text)
			wantErr(t, err, fenlock.ErrLost)
			synctest.Wait()
			c.set(0, 1, release, fault{})
			time.Sleep(ttl)
			c.wantLeases(0)
		})
	}
}
