package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// The claims and objections of the published material on Redlock, a test each:
//
//	[R] "Distributed Locks with Redis", the page on redis.io
//	[K] Martin Kleppmann, "How to do distributed locking"
//	[A] Salvatore Sanfilippo, "Is Redlock safe?"

// [R] Safety property: "Mutual exclusion. At any given moment, only one client
// can hold a lock."
func TestMutualExclusion(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		var inside, entries atomic.Int32
		var last fence.Token
		var wait sync.WaitGroup
		for range 4 {
			l := newLocker(t, urls(servers))
			wait.Go(func() {
				for range 10 {
					err := l.Do(bounded(t), "orders/42", func(_ context.Context, token fence.Token) error {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d inside at once", n)
						}
						if token <= last {
							t.Errorf("token %v after %v", token, last)
						}
						last = token // no mutex: the race detector watches the lock itself
						entries.Add(1)
						inside.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if entries.Load() != 40 {
			t.Errorf("%d entries, want 40", entries.Load())
		}
	})
}

// [R] Liveness property A: "Deadlock free. Eventually it is always possible to
// acquire a lock, even if the client that locked a resource crashes".
func TestClientCrash(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		client := startClient(t, urls(servers), "orders/42")
		token := client.token()
		client.signal(syscall.SIGKILL)
		if lock := acquire(t, newLocker(t, urls(servers)), "orders/42"); lock.Token() <= token {
			t.Errorf("token %v after %v", lock.Token(), token)
		}
	})
}

// [R] Liveness property B: "Fault tolerance. As long as the majority of Redis
// nodes are up, clients are able to acquire and release locks." And no longer.
func TestTwoOfFiveAreDown(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "orders/42"))
		servers[0].Kill()
		servers[3].Kill()
		release(t, acquire(t, l, "orders/42"))
		servers[4].Kill()
		_, err := l.TryAcquire(bounded(t), "orders/42")
		var q *fenlock.QuorumError
		if !errors.As(err, &q) || errors.Is(err, fenlock.ErrHeld) || len(q.Errors) < 3 {
			t.Errorf("with three down: %v", err)
		}
	})
}

// [R] "the client should ... try to acquire the lock in all the N instances" with a small timeout.
// So it is not "blocked for a long time trying to talk with a Redis node which is down". A node
// that hangs costs no majority its lock.
func TestHungMinority(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "orders/42"))
		servers[1].Pause()
		servers[2].Pause()
		lock := acquire(t, l, "orders/42")
		if err := lock.Extend(bounded(t)); err != nil {
			t.Errorf("extend: %v", err)
		}
		if err := lock.Release(bounded(t)); err != nil {
			t.Errorf("release: %v", err)
		}
		// The acquire is executed late, when the lock is long released. Its
		// lease must go.
		servers[1].Resume()
		servers[2].Resume()
		noLeases(t, servers, "orders/42")
	})
}

// [R] "If the lock was acquired, its validity time is considered to be the
// initial validity time minus the time elapsed".
func TestValidityIsShortenedByTheTimeSpent(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		slow, through := through(t, servers[:2]...)
		l := newLocker(t, append(through, servers[2].URL()))
		release(t, acquire(t, l, "warm up"))
		const delay = 150 * time.Millisecond
		lift := slow.impose(proxy.Rule{From: proxy.Effect{Delay: delay}})
		lock := acquire(t, l, "orders/42")
		lift() // with little left of the node timeout, a release would fail on a busy machine
		// A lower bound on the time spent is an upper one on the validity.
		if left, most := lock.Remaining(), groupTTL-delay-groupTTL/100-2*time.Millisecond; left > most {
			t.Errorf("%v of validity left of %v, although the round took %v: want at most %v", left, groupTTL, delay, most)
		}
		release(t, lock)
	})
}

// [R] "it is important to avoid removing a lock that was created by another
// client": a release after the expiry does not.
func TestReleaseAfterExpiry(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		client := startClient(t, urls(servers), "orders/42")
		client.token()
		var late string
		eventually(t, func() error {
			if late = servers[0].Do("GET", "fenlock:orders/42"); late == "(nil)" {
				return fmt.Errorf("%s has not granted yet", servers[0].Addr())
			}
			return nil
		})
		theNewOnes := func() (n int) {
			for _, s := range servers {
				if holder := s.Do("GET", "fenlock:orders/42"); holder != late && holder != "(nil)" {
					n++
				}
			}
			return n
		}
		client.stop() // longer than its lease
		lock := acquire(t, newLocker(t, urls(servers)), "orders/42")
		// The late client's lease may have been the last to end on one of them, which
		// the new holder's extension mends.
		eventually(t, func() error {
			if n := theNewOnes(); n != 5 {
				return fmt.Errorf("the new holder has %d leases", n)
			}
			return nil
		})
		client.signal(syscall.SIGCONT)
		client.goOn()
		if got := client.line(); !strings.Contains(got, "lost") {
			t.Errorf("the late client's release: %q; want it to be told that the lock was lost", got)
		}
		if n := theNewOnes(); n != 5 {
			t.Errorf("%d leases of the new holder are left, want 5", n)
		}
		if err := lock.Extend(bounded(t)); err != nil {
			t.Errorf("the new holder's lock: %v", err)
		}
		release(t, lock)
	})
}

// [R] "it is highly recommended for clients that fail to acquire the majority of
// locks, to release the (partially) acquired locks ASAP".
func TestPartialLocksAreReleased(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "warm up"))
		for _, s := range servers[:3] { // another Redlock client's, without an end
			s.Do("SET", "fenlock:orders/42", "somebody")
		}
		if _, err := l.TryAcquire(bounded(t), "orders/42"); !errors.Is(err, fenlock.ErrHeld) {
			t.Fatalf("with three of five leased to another: %v", err)
		}
		noLeases(t, servers[3:], "orders/42")
	})
}

// acquireOnThree acquires orders/42 on the first three of five servers only.
func acquireOnThree(t *testing.T, l *fenlock.Locker, servers []*testserver.Server) *fenlock.Lock {
	t.Helper()
	release(t, acquire(t, l, "warm up"))
	servers[3].Pause()
	servers[4].Pause()
	lock := acquire(t, l, "orders/42")
	// They forget no promise: they had given none.
	for _, s := range servers[3:] {
		s.Kill()
		s.Restart()
		s.MarkAdmitted("fenlock:", groupTTL)
	}
	return lock
}

// [R] "Performance, crash recovery and fsync": a node without persistence that restarts must be out
// for longer than the longest lease. Otherwise three of five could be locked twice. A and B hold
// the lease's majority with C, C restarts empty, and C, D and E would grant it again.
func TestCrashWithoutPersistence(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		l, other := newLocker(t, urls(servers)), newLocker(t, urls(servers))
		lock := acquireOnThree(t, l, servers)
		servers[2].Kill()
		servers[2].Restart()
		next, err := other.TryAcquire(bounded(t), "orders/42")
		if left := lock.Remaining(); err == nil && left > 0 {
			t.Fatalf("locked twice: tokens %v, with %v left, and %v", lock.Token(), left, next.Token())
		}
		if err != nil {
			// A and B have the lease, and its extension may have reached D or E in time. Then it is
			// rightly held until it is released.
			if err := lock.Release(bounded(t)); err != nil && !errors.Is(err, fenlock.ErrLost) {
				t.Error(err)
			}
			next = acquire(t, other, "orders/42")
		}
		if next.Token() <= lock.Token() {
			t.Errorf("token %v after %v", next.Token(), lock.Token())
		}
	})
}

// [R] "delayed restarts": the node is back after the longest lease. It has its registers rebuilt
// from the others, and takes part in locks that are held.
func TestDelayedRestart(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		lock := acquire(t, newLocker(t, urls(servers)), "orders/42")
		servers[2].Kill()
		servers[2].Restart()
		eventually(t, func() error {
			if lock.Context().Err() != nil {
				t.Fatal(context.Cause(lock.Context()))
			}
			if err := lock.Extend(bounded(t)); err != nil {
				return err
			}
			if n := leases(servers[2:3], "orders/42"); n != 1 {
				return errors.New("the node does not have the lease again")
			}
			return nil
		})
		register := servers[2].Do("HGET", "fenlock-registers:fenlock:", fmt.Sprint(node.Stripe("orders/42")))
		if token, err := fence.Parse(register); err != nil || token < lock.Token() {
			t.Errorf("the rebuilt register is %s, the token %v", register, lock.Token())
		}
		release(t, lock)
	})
}

// [R] "fsync=always" instead: the node votes at once, and knows its leases.
func TestCrashWithFsyncAlways(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := testserver.Group(t, kind, 3, "appendonly yes", "appendfsync always", "aof-load-truncated no")
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "orders/42")) // a real admission, which records the fsync
		lock := acquire(t, l, "orders/42")
		for _, s := range servers[:2] { // a majority
			s.Kill()
			s.Restart()
		}
		// Nothing was admitted by waiting: the lock would have been lost by then.
		if err := lock.Extend(bounded(t)); err != nil && !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("extend: %v", err)
		}
		token := lock.Token()
		lock.Release(bounded(t))
		if lock = acquire(t, l, "orders/42"); lock.Token() <= token {
			t.Errorf("token %v after %v", lock.Token(), token)
		}
	})
}

// [R] "Making the algorithm more reliable: Extending the lock": only if the majority is reached.
// And "the number of lock reacquisition attempts should be limited, otherwise one of the liveness
// properties is violated".
func TestExtension(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		t.Run("by majority", func(t *testing.T) {
			lock := acquire(t, newLocker(t, urls(servers)), "majority")
			for _, s := range servers[:2] { // vacant: repaired
				s.Do("DEL", "fenlock:majority")
			}
			if err := lock.Extend(bounded(t)); err != nil {
				t.Fatalf("extend: %v", err)
			}
			for _, s := range servers[:3] {
				s.Do("SET", "fenlock:majority", "somebody else")
			}
			if err := lock.Extend(bounded(t)); !errors.Is(err, fenlock.ErrLost) {
				t.Errorf("extend with three of five gone: %v; want ErrLost", err)
			}
			<-lock.Context().Done()
			if cause := context.Cause(lock.Context()); !errors.Is(cause, fenlock.ErrLost) {
				t.Errorf("the context's cause: %v", cause)
			}
		})
		t.Run("bounded", func(t *testing.T) {
			lock := acquire(t, newLocker(t, urls(servers), func(c *fenlock.Config) { c.MaxHold = 2 * groupTTL }), "forgotten")
			next := acquire(t, newLocker(t, urls(servers)), "forgotten")
			if cause := context.Cause(lock.Context()); !errors.Is(cause, fenlock.ErrMaxHold) {
				t.Errorf("the forgotten lock ended with %v; want ErrMaxHold", cause)
			}
			release(t, next)
		})
	})
}
