package fenlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// Config.Clock may start anywhere. Around 0 and below it, a validity is as long as
// elsewhere: one that reached up to 0 would be believed in long after the leases ended.
func TestClockFromAnyEpoch(t *testing.T) {
	for _, epoch := range []time.Duration{-100 * time.Hour, -ttl, -time.Second, -1, 0, 1, time.Hour} {
		bubble(t, 5, func(t *testing.T, c *cluster) {
			from := func(config *fenlock.Config) {
				config.Clock = func() time.Duration { return epoch + c.now() }
			}
			lock := c.held(from)
			if left := lock.Remaining(); left != validity {
				t.Errorf("from %v: %v remain, want %v", epoch, left, validity)
			}
			if err := lock.Extend(t.Context()); err != nil {
				t.Errorf("from %v: %v", epoch, err)
			}
			time.Sleep(10 * ttl) // all five nodes answer each extension
			synctest.Wait()
			if err := lock.Context().Err(); err != nil {
				t.Fatalf("from %v: after ten leases: %v", epoch, err)
			}
			c.set(0, 5, extend, down)
			time.Sleep(validity)
			synctest.Wait()
			wantCause(t, lock.Context(), fenlock.ErrLost)
			c.set(0, 5, extend, fault{})
			wantErr(t, lock.Release(t.Context()), fenlock.ErrLost)
		})
	}
}

// In a synctest bubble no Clock has to be given: a lock ends by the bubble's time.
func TestLockerInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnode.New("a node")
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}, TTL: ttl, MaxHold: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		lock, err := l.TryAcquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Hour)
		if err := lock.Context().Err(); err != nil {
			t.Fatalf("after 10 h: %v", context.Cause(lock.Context()))
		}
		n.Crash()
		time.Sleep(validity)
		synctest.Wait()
		wantCause(t, lock.Context(), fenlock.ErrLost)
	})
}
