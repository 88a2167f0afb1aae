package fenlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
)

// moving returns a process of each kind, and the clusters' name that moves.
func moving(t *testing.T, s several, change ...func(*fenlock.Config)) (old, during, after *groups.Groups, name string) {
	old, during, after = s.process(t, oldOnly[0], "", change...), s.process(t, both[0], both[1], change...), s.process(t,
		newOnly[0], "", change...)
	return old, during, after, onThat(t, during, "b", "a")
}

func wantLeasesOn(t *testing.T, s several, name string, a, b int) {
	t.Helper()
	time.Sleep(time.Millisecond)
	if onA, onB := s["a"].leases(name), s["b"].leases(name); onA != a || onB != b {
		t.Errorf("%d nodes of a and %d of b have a lease, want %d and %d", onA, onB, a, b)
	}
}

// Two locks are one for their holder.
func TestLockOnTwoGroups(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		old, during, after, name := moving(t, s)
		lock, err := during.Acquire(ctx, name)
		wantErr(t, err)
		wantLeasesOn(t, s, name, 3, 3)
		for _, g := range []*groups.Groups{old, during, after} {
			_, err = g.TryAcquire(ctx, name)
			wantErr(t, err, fenlock.ErrHeld)
		}
		wantLeasesOn(t, s, name, 3, 3)
		time.Sleep(10 * time.Minute)
		wantCause(t, lock.Context(), nil)
		time.Sleep(time.Second)
		wantErr(t, lock.Extend(ctx))
		wantRemaining(t, lock, validity)
		wantErr(t, lock.Release(ctx))
		wantCause(t, lock.Context(), fenlock.ErrReleased)
		wantRemaining(t, lock, 0)
		wantLeasesOn(t, s, name, 0, 0)
		wantErr(t, lock.Release(ctx), fenlock.ErrReleased)
		wantErr(t, lock.Extend(ctx), fenlock.ErrReleased)

		err = during.Do(ctx, name, func(ctx context.Context, token fence.Token) error {
			_, err := during.Acquire(ctx, name)
			wantErr(t, err, fenlock.ErrNested)
			_, err = during.AcquireAny(ctx, []string{name})
			wantErr(t, err, fenlock.ErrNested)
			_, err = during.AcquireAll(ctx, []string{name})
			wantErr(t, err, fenlock.ErrNested)
			wantLeasesOn(t, s, name, 3, 3)
			return nil
		})
		wantErr(t, err)
		wantLeasesOn(t, s, name, 0, 0)
		either, err := during.AcquireAny(ctx, []string{name, onThat(t, during, "a", "")})
		wantErr(t, err)
		wantLeasesOn(t, s, name, 3, 3)
		wantErr(t, either.Release(ctx))
	})
}

// A lock that is lost on one of the groups is lost, and the other group's is not kept from others.
func TestLockOnTwoGroupsIsLostWithOne(t *testing.T) {
	for _, lost := range []string{"a", "b"} {
		severally(t, "a b", func(t *testing.T, s several) {
			ctx := t.Context()
			_, during, _, name := moving(t, s)
			lock, err := during.Acquire(ctx, name)
			wantErr(t, err)
			time.Sleep(time.Millisecond)
			s[lost].set(0, 2, allOps, down)
			time.Sleep(time.Second)
			wantErr(t, lock.Extend(ctx), fenlock.ErrNoQuorum)
			if left := lock.Remaining(); left > validity-time.Second {
				t.Errorf("%v remain", left)
			}
			time.Sleep(ttl)
			wantCause(t, lock.Context(), fenlock.ErrLost)
			wantRemaining(t, lock, 0)
			s[lost].set(0, 2, allOps, fault{})
			time.Sleep(ttl)
			if n := s["a"].leases(name); n > 0 {
				t.Errorf("lost on %q: %d nodes of the old group have a lease that nobody bounds", lost, n)
			}
			err = lock.Release(ctx)
			wantErr(t, err, fenlock.ErrLost)
			wantNot(t, err, fenlock.ErrReleased)
			wantLeasesOn(t, s, name, 0, 0)
			wantErr(t, lock.Release(ctx), fenlock.ErrReleased)
		})
	}
}

// The maximum hold counts from when both are held, and ends both.
func TestLockOnTwoGroupsHasOneMaxHold(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		_, during, after, name := moving(t, s, maxHold(time.Minute))
		before, err := after.Acquire(ctx, name, fenlock.WithMaxHold(-1))
		wantErr(t, err)
		time.AfterFunc(150*time.Second, func() { before.Release(context.Background()) })
		lock, err := during.Acquire(ctx, name)
		wantErr(t, err)
		time.Sleep(50 * time.Second)
		wantCause(t, lock.Context(), nil)
		time.Sleep(11 * time.Second)
		wantCause(t, lock.Context(), fenlock.ErrMaxHold)
		time.Sleep(ttl)
		wantLeasesOn(t, s, name, 0, 0)
		err = lock.Release(ctx)
		wantErr(t, err, fenlock.ErrMaxHold)
		wantNot(t, err, fenlock.ErrReleased)
	})
}

// A client that waits for the second lock and loses the first takes both again.
func TestWhoWaitsForTheSecondLockKeepsTheFirst(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		old, during, after, name := moving(t, s)
		before, err := after.Acquire(ctx, name)
		wantErr(t, err)
		_, err = during.TryAcquire(ctx, name)
		wantErr(t, err, fenlock.ErrHeld)
		wantLeasesOn(t, s, name, 0, 3)
		_, err = during.Acquire(ctx, name, fenlock.WithWait(time.Second))
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		wantLeasesOn(t, s, name, 0, 3)

		got := make(chan *fenlock.Lock, 1)
		go func() {
			k, err := during.Acquire(context.Background(), name)
			wantErr(t, err)
			got <- k
		}()
		time.Sleep(time.Second)
		wantLeasesOn(t, s, name, 3, 3)
		s["a"].set(0, 2, allOps, down)
		time.Sleep(2 * ttl)
		wantLeasesOn(t, s, name, 0, 3)
		s["a"].set(0, 2, allOps, fault{})
		time.Sleep(ttl)
		wantLeasesOn(t, s, name, 3, 3)
		wantErr(t, before.Release(ctx))
		lock := <-got
		_, err = old.TryAcquire(ctx, name)
		wantErr(t, err, fenlock.ErrHeld)
		wantErr(t, lock.Release(ctx))
	})
}

// A caller that gives up just when the first lock is lost is told as always. The error has what
// ended the wait and, if known, why the last attempt failed.
func TestWhoGivesUpWhenTheFirstLockIsLost(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		_, during, after, name := moving(t, s)
		before, err := after.Acquire(ctx, name)
		wantErr(t, err)
		s["a"].set(0, 3, extend, down)
		s["a"].set(0, 3, release, fault{hang: true}) // until it is known what comes of that, the wait is over
		_, err = during.Acquire(ctx, name, fenlock.WithWait(validity+nodeTimeout/2))
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrHeld)
		wantErr(t, before.Release(ctx))

		// The same without a limit of its own, and when both are held.
		s["a"].set(0, 3, release, fault{})
		s["a"].set(0, 3, extend, fault{lost: true})
		inTime, cancel := context.WithTimeout(ctx, nodeTimeout+nodeTimeout/2)
		defer cancel()
		_, err = during.Acquire(inTime, name)
		wantErr(t, err, context.DeadlineExceeded, fenlock.ErrNoQuorum)
	})
}

// A node that goes in the middle: the token is not told before the old group knows of it.
func TestTokenIsNotToldBeforeItIsRaised(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		_, during, _, name := moving(t, s)
		s["a"].set(0, 2, extend, down)
		_, err := during.TryAcquire(ctx, name)
		wantErr(t, err, fenlock.ErrNoQuorum)
		time.Sleep(time.Second)
		wantLeasesOn(t, s, name, 0, 0)
		_, err = during.Acquire(ctx, name, fenlock.WithWait(time.Minute))
		wantErr(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		wantLeasesOn(t, s, name, 0, 0)
		time.AfterFunc(time.Minute, func() { s["a"].set(0, 2, extend, fault{}) })
		lock, err := during.Acquire(ctx, name)
		wantErr(t, err)
		if agreed := slices.DeleteFunc([]int{0, 1, 2},
			func(i int) bool { return s["a"].lease(i, name).Register < lock.Token() }); len(agreed) < 2 {
			t.Errorf("the nodes %v of a know of the token", agreed)
		}
		wantErr(t, lock.Release(ctx))
	})
}

// A minimum hold is kept on both groups.
func TestMinHoldOnTwoGroups(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		old, during, after, name := moving(t, s)
		lock, err := during.Acquire(ctx, name, fenlock.WithMinHold(20*time.Second))
		wantErr(t, err)
		time.Sleep(time.Second)
		wantErr(t, lock.Release(ctx))
		for _, g := range []*groups.Groups{old, during, after} {
			_, err = g.TryAcquire(ctx, name)
			wantErr(t, err, fenlock.ErrHeld)
		}
		time.Sleep(18 * time.Second)
		wantLeasesOn(t, s, name, 3, 3)
		time.Sleep(2 * time.Second)
		wantLeasesOn(t, s, name, 0, 0)
	})
}

// Several names that move together are had together, each with a token that both groups know.
func TestAcquireAllOnTwoGroups(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		old, during, after, name := moving(t, s)
		names := []string{name, onThat(t, during, "b", "a", name)}
		last := map[string]fence.Token{}
		for i, g := range []*groups.Groups{old, during, old, during, after, during, after} {
			for id, n := range map[string]fence.Token{"a": 1, "b": 2} { // clocks
				for _, of := range listsOf(g, name) {
					if of.ID == id {
						fenlock.SetSeen(of.Locker, future+n*fence.Token(i%3))
					}
				}
			}
			locks, err := g.AcquireAll(ctx, names, fenlock.WithMinHold(time.Second))
			wantErr(t, err)
			for _, name := range names {
				if locks.Token(name) <= last[name] {
					t.Errorf("%d: token %d after %d", i, locks.Token(name), last[name])
				}
				last[name] = locks.Token(name)
			}
			time.Sleep(time.Minute)
			wantCause(t, locks.Context(), nil)
			for _, g := range []*groups.Groups{during, g} {
				_, err = g.TryAcquire(ctx, names[1])
				wantErr(t, err, fenlock.ErrHeld)
			}
			wantErr(t, locks.Release(ctx))
			wantCause(t, locks.Context(), fenlock.ErrReleased)
			for _, name := range names {
				wantLeasesOn(t, s, name, 0, 0)
			}
		}
	})
}

// listsOf returns the groups of a name.
func listsOf(g *groups.Groups, name string) []groups.Group {
	group, old := g.Of(name)
	if old.ID == "" {
		return []groups.Group{group}
	}
	return []groups.Group{group, old}
}

// Nothing is shared on the one group if it cannot be on the other.
func TestDowngradeOnTwoGroups(t *testing.T) {
	severally(t, "a b", func(t *testing.T, s several) {
		ctx := t.Context()
		_, during, after, name := moving(t, s, func(c *fenlock.Config) {
			if c.Nodes[0].String() == s["a"].nodes[0].String() {
				for i, n := range c.Nodes {
					c.Nodes[i] = alone{n}
				}
			}
		})
		lock, err := during.Acquire(ctx, name)
		wantErr(t, err)
		wantErr(t, lock.Downgrade(ctx), fenlock.ErrInvalid)
		wantErr(t, lock.Extend(ctx))
		_, err = after.TryAcquire(ctx, name, fenlock.WithShared())
		wantErr(t, err, fenlock.ErrHeld)
		wantErr(t, lock.Release(ctx))
	})
}
