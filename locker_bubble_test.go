package fenlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// A test of code that locks has a bubble and a memnode, and configures nothing: these tests know
// nothing of the tests' clusters. docs/testing.md.

// In a bubble the leases end by its clock. A Locker that counted by another one would
// extend too late or never, and two would hold the lock.
func TestInABubbleOneHoldsHoweverLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnode.New("n")
		// A long lease, so that 300 hours have few extensions.
		config := fenlock.Config{TTL: 5 * time.Minute, MaxTTL: 5 * time.Minute, MaxHold: -1}
		lock := take(t, process(t, n, config), name)
		other := process(t, n, config)
		for range 300 {
			// Not only at the instants at which the lock is extended.
			time.Sleep(time.Hour + 17*time.Millisecond)
			_, err := other.TryAcquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrHeld)
			wantCause(t, lock.Context(), nil)
			if left := lock.Remaining(); left <= 0 || t.Failed() {
				t.Fatalf("the lock has %v left", left)
			}
		}
		wantErr(t, lock.Release(t.Context()))
		after := take(t, other, name)
		if after.Token() <= lock.Token() {
			t.Errorf("token %d after %d", after.Token(), lock.Token())
		}
		wantErr(t, after.Release(t.Context()))
	})
}

// A Locker that is closed does not extend, as a process that died.
func TestInABubbleTheLockOfTheDeadIsFreeAfterTheTTL(t *testing.T) {
	for _, since := range []time.Duration{0, time.Second, 50 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("closed after %v", since)
			n := memnode.New("n")
			dies := process(t, n, fenlock.Config{})
			lock := take(t, dies, name)
			time.Sleep(since)
			// The lease ends when this validity does, and the drift.
			end := time.Now().Add(lock.Remaining() + drift)
			wantErr(t, dies.Close())

			other := process(t, n, fenlock.Config{})
			time.Sleep(time.Until(end) - time.Nanosecond)
			_, err := other.TryAcquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrHeld)
			wantCause(t, lock.Context(), fenlock.ErrLost)
			time.Sleep(time.Nanosecond)
			wantErr(t, take(t, other, name).Release(t.Context()))
		})
	}
}

// process is another process on the same node.
func process(t *testing.T, n *memnode.Node, config fenlock.Config) *fenlock.Locker {
	t.Helper()
	config.Nodes = []fenlock.Node{n.Share()}
	return newLocker(t, config)
}
