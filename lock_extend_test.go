package fenlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

const third = ttl / 3

// A lock extends itself from a third of the TTL on, counted from the start of the round before. So
// two more rounds fit in if one fails.
func TestExtendsItselfFromAThirdOfTheTTL(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.set(0, 3, allOps, fault{request: 10 * time.Millisecond, reply: 10 * time.Millisecond})
		lock := c.held()
		time.Sleep(time.Minute)
		wantCause(t, lock.Context(), nil)
		var want []time.Duration
		for at := third; at <= time.Minute; at += third {
			want = append(want, at)
		}
		for _, f := range c.nodes {
			if got := f.times(extend); !slices.Equal(got, want) {
				t.Errorf("node %s was asked to extend at %v, want %v", f, got, want)
			}
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// No quorum is not a loss: the validity of the last round still stands, and the
// caller can tell.
func TestExtendWithoutQuorumKeepsTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		time.Sleep(time.Second)
		c.set(0, 2, extend, down)
		err := lock.Extend(t.Context())
		wantErr(t, err, fenlock.ErrNoQuorum, errDown)
		wantNot(t, err, fenlock.ErrLost, fenlock.ErrReleased)
		wantFailed(t, err, 2, 3)
		wantRemaining(t, lock, validity-time.Second)
		wantCause(t, lock.Context(), nil)
		c.set(0, 2, extend, fault{})
		wantErr(t, lock.Extend(t.Context()))
	})
}

// An extension that is under way says nothing about what happens after the nodes have accepted it.
// The lock goes to another client and comes back, and a caller of Extend must hear of it then.
func TestExtendDoesNotJoinWhatBeganBefore(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		first := c.held()
		c.set(0, 3, extend, fault{reply: 100 * time.Millisecond})
		var wg sync.WaitGroup
		wg.Go(func() { wantErr(t, first.Extend(t.Context())) })
		time.Sleep(20 * time.Millisecond)
		tokens := map[int]fence.Token{node.Stripe(name): first.Token()}
		c.crash(0, tokens)
		c.crash(1, tokens)
		wantErr(t, c.held().Release(t.Context()))
		wantErr(t, first.Extend(t.Context()), fenlock.ErrLost)
		wg.Wait()
	})
}

// A caller that waits for the extension before its own may give up.
func TestExtendEndsWithItsContextBehindAnother(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		c.set(0, 3, extend, fault{request: 300 * time.Millisecond})
		var wg sync.WaitGroup
		wg.Go(func() { wantErr(t, lock.Extend(t.Context())) })
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		wantErr(t, lock.Extend(ctx), context.DeadlineExceeded)
		c.wantNow(110 * time.Millisecond)
		wg.Wait()
		c.wantRequests(extend, 3) // one for each node
	})
}

// The caller's patience ends; the extension is the lock's and goes on.
func TestExtendEndsWithItsContextAndGoesOn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		time.Sleep(time.Second)
		c.set(0, 3, extend, fault{request: 300 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := lock.Extend(ctx)
		c.wantNow(1100 * time.Millisecond)
		wantErr(t, err, context.DeadlineExceeded)
		wantNot(t, err, fenlock.ErrLost, fenlock.ErrNoQuorum)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		wantRemaining(t, lock, validity-300*time.Millisecond)
	})
}

// A majority that refuses is final, and the holder is told at once rather than when its validity
// ends. An operator who took the lock away wants it to stop.
func TestForceReleasedLockIsLostAtTheNextExtension(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		c.forced(0, 2, lock.Token()+1)
		time.Sleep(third - 1)
		wantCause(t, lock.Context(), nil)
		time.Sleep(time.Nanosecond)
		wantCause(t, lock.Context(), fenlock.ErrLost)
		if cause := context.Cause(lock.Context()); strings.Count(cause.Error(),
			"it had lost the lease, and another client may have had it") != 2 {
			t.Errorf("the cause does not say what happened: %v", cause)
		}
		synctest.Wait()
		c.wantLeases(0) // what was taken again has been given back
	})
}

// While a node is out it counts for nothing, and its detail is in the error.
func TestRejoiningNodesAreNamedWithTheirReason(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		for _, f := range c.nodes[:2] {
			f.Crash()
			f.Restart()
		}
		err := lock.Extend(t.Context())
		wantErr(t, err, fenlock.ErrNoQuorum)
		wantFailed(t, err, 2, 3)
		if out := new(node.AbsenceError); !errors.As(err, &out) || out.Absence.Cause != node.NotJoined {
			t.Errorf("the error does not say why the nodes are out: %v", err)
		}
	})
}

func TestExtendAfterTheEnd(t *testing.T) {
	for want, end := range map[error]func(*cluster, *fenlock.Lock){
		fenlock.ErrReleased: func(_ *cluster, lock *fenlock.Lock) { lock.Release(context.Background()) },
		fenlock.ErrMaxHold:  func(*cluster, *fenlock.Lock) { time.Sleep(time.Minute) },
		fenlock.ErrLost: func(c *cluster, _ *fenlock.Lock) {
			c.set(0, 1, allOps, down)
			time.Sleep(validity)
			c.set(0, 1, allOps, fault{})
		},
	} {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			lock := c.held(maxHold(time.Minute))
			end(c, lock)
			err := lock.Extend(t.Context())
			wantErr(t, err, want)
			if want != fenlock.ErrLost {
				wantNot(t, err, fenlock.ErrLost)
			}
			if want == fenlock.ErrReleased {
				c.wantLeases(0)
			}
		})
	}
}

// A caller that extends under the lock's own context hears why the lock is not held any more: the
// context's end says less.
func TestExtendUnderTheLocksContext(t *testing.T) {
	for range 30 { // both are ready, and which is seen first is chance
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.held()
			c.set(0, 3, extend, fault{hang: true})
			done := make(chan error)
			go func() { done <- lock.Extend(lock.Context()) }()
			synctest.Wait()
			wantErr(t, lock.Release(t.Context()))
			wantErr(t, <-done, fenlock.ErrReleased)
			wantErr(t, lock.Extend(lock.Context()), fenlock.ErrReleased)
		})
	}
}
