package fenlock_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// Whoever tests code that locks has a bubble and a memnode, and configures nothing:
// these tests know nothing of the tests' clusters. docs/testing.md.

// In a bubble the leases end by its clock. A Locker that counted by another one would
// extend too late or never, and two would hold the lock.
func TestInABubbleOneHoldsHoweverLong(t *testing.T) {
	const hours = 300
	synctest.Test(t, func(t *testing.T) {
		n := memnode.New("n")
		// A long lease, so that 300 hours have few extensions.
		config := fenlock.Config{TTL: 5 * time.Minute, MaxTTL: 5 * time.Minute, MaxHold: -1}
		lock, err := newLocker(t, n, config).Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		other := newLocker(t, n, config)
		for hour := range hours {
			// Not only at the instants at which the lock is extended.
			time.Sleep(time.Hour + 17*time.Millisecond)
			if k, err := other.TryAcquire(t.Context(), name); !errors.Is(err, fenlock.ErrHeld) {
				t.Fatalf("in hour %d another one has %v, %v", hour, k, err)
			}
			if left := lock.Remaining(); left <= 0 || lock.Context().Err() != nil {
				t.Fatalf("in hour %d the lock has %v left, %v", hour, left, lock.Context().Err())
			}
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		after, err := other.TryAcquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if after.Token() <= lock.Token() {
			t.Errorf("token %d after %d", after.Token(), lock.Token())
		}
		wantErr(t, after.Release(t.Context()))
	})
}

// Who waits in the bubble waits by its clock, too.
func TestInABubbleOneWaitsHoweverLong(t *testing.T) {
	const held = 3 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		n := memnode.New("n")
		lock, err := newLocker(t, n, fenlock.Config{MaxHold: -1}).Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(held, func() { lock.Release(t.Context()) })
		next, err := newLocker(t, n, fenlock.Config{}).Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != held {
			t.Errorf("acquired after %v", waited)
		}
		wantErr(t, next.Release(t.Context()))
	})
}

// A Locker that is closed does not extend, as a process that died.
func TestInABubbleTheLockOfTheDeadIsFreeAfterTheTTL(t *testing.T) {
	for _, since := range []time.Duration{0, time.Second, 50 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			n := memnode.New("n")
			dies := newLocker(t, n, fenlock.Config{})
			lock, err := dies.Acquire(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(since)
			// The lease ends when this validity does, and the drift.
			end := time.Now().Add(lock.Remaining() + drift)
			wantErr(t, dies.Close())

			other := newLocker(t, n, fenlock.Config{})
			time.Sleep(time.Until(end) - time.Nanosecond)
			if _, err := other.TryAcquire(t.Context(), name); !errors.Is(err, fenlock.ErrHeld) {
				t.Errorf("closed after %v: before the lease has ended: %v", since, err)
			}
			if lock.Context().Err() == nil {
				t.Errorf("closed after %v: its holder believes in the lock still", since)
			}
			time.Sleep(time.Nanosecond)
			next, err := other.TryAcquire(t.Context(), name)
			if err != nil {
				t.Fatalf("closed after %v: the lease has ended: %v", since, err)
			}
			wantErr(t, next.Release(t.Context()))
		})
	}
}

// newLocker is another process on the same node.
func newLocker(t *testing.T, n *memnode.Node, config fenlock.Config) *fenlock.Locker {
	t.Helper()
	config.Nodes = []fenlock.Node{n.Share()}
	l, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
