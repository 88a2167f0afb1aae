package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// The second caller is told that the lock was released before. A deferred Release after an explicit
// one is usual, and must not take another client's lock.
func TestReleaseTwice(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		wantErr(t, lock.Release(t.Context()))
		c.wantLeases(0)
		next := c.held()
		err := lock.Release(t.Context())
		wantErr(t, err, fenlock.ErrReleased)
		wantNot(t, err, fenlock.ErrLost)
		c.wantLeases(3)
		wantCause(t, next.Context(), nil)
	})
}

// A lost lock's Release says so, and removes the leases that may be left. So the next holder need
// not wait for them to end. After a refusal it need not: they have been removed.
func TestReleaseAfterLoss(t *testing.T) {
	type loss struct {
		lose    func(*cluster)
		want    error
		removed bool
	}
	bubbles(t, 3, map[string]loss{
		// Executed, but without an answer: the leases are longer then, the validity is not.
		"validity": {func(c *cluster) { c.set(0, 3, extend, fault{lost: true}); time.Sleep(validity) }, fenlock.ErrLost,
			false},
		"refused": {func(c *cluster) { c.forced(0, 2, future); time.Sleep(third) }, fenlock.ErrLost, true},
		"maximum": {func(c *cluster) { time.Sleep(20 * time.Second) }, fenlock.ErrMaxHold, false},
	}, func(t *testing.T, c *cluster, test loss) {
		lock := c.held(maxHold(20 * time.Second))
		test.lose(c)
		wantCause(t, lock.Context(), test.want)
		synctest.Wait()
		if left := c.leases(name); (left == 0) != test.removed {
			t.Errorf("%d leases are left after the loss", left)
		}
		err := lock.Release(t.Context())
		wantErr(t, err, test.want)
		wantNot(t, err, fenlock.ErrReleased, fenlock.ErrNoQuorum)
		c.wantLeases(0)
		wantErr(t, lock.Release(t.Context()), fenlock.ErrReleased)
	})
}

// Too few nodes answered: the caller is told, and the error names them. What is
// left ends by itself within a TTL.
func TestReleaseWithoutQuorum(t *testing.T) {
	for _, how := range []fault{down, {hang: true}} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.held()
			c.set(0, 2, allOps, how)
			err := lock.Release(t.Context())
			wantErr(t, err, fenlock.ErrNoQuorum)
			wantNot(t, err, fenlock.ErrLost, fenlock.ErrReleased, context.DeadlineExceeded)
			wantFailed(t, err, 2, 3)
			var q *fenlock.QuorumError
			if errors.As(err, &q) && q.Op != "release" {
				t.Errorf("the operation is %q", q.Op)
			}
			wantCause(t, lock.Context(), fenlock.ErrReleased)
			c.wantLeases(2)
			time.Sleep(ttl)
			c.wantLeases(0)
		})
	}
}

// The context bounds the caller's wait; the requests go on without it (bug 4).
func TestReleaseEndsWithItsContextAndGoesOn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		c.set(0, 3, release, fault{request: 300 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		time.AfterFunc(1, func() { // the lock ends at once, not when the nodes have answered
			wantErr(t, context.Cause(lock.Context()), fenlock.ErrReleased)
			wantRemaining(t, lock, 0)
		})
		err := lock.Release(ctx)
		c.wantNow(100 * time.Millisecond)
		wantErr(t, err, context.DeadlineExceeded)
		wantNot(t, err, fenlock.ErrNoQuorum)
		wantCause(t, lock.Context(), fenlock.ErrReleased)
		wantNot(t, context.Cause(lock.Context()), fenlock.ErrLost, fenlock.ErrMaxHold)
		time.Sleep(200 * time.Millisecond)
		c.wantLeases(0)
	})
	bubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.held()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		lock.Release(ctx) // either outcome is right: the nodes may be faster
		c.wantLeases(0)
	})
}

// Close waits for the requests that clean up, or the process would end and leave
// leases behind for a TTL.
func TestCloseWaitsForCleaningUp(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.set(0, 3, allOps, fault{request: 200 * time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		l := c.locker()
		_, err := l.TryAcquire(ctx, name)
		wantErr(t, err, context.DeadlineExceeded)
		c.wantNow(50 * time.Millisecond) // its caller need not wait for that
		wantErr(t, l.Close())
		// The acquires were answered at 200 ms, what released them 200 ms later.
		c.wantNow(400 * time.Millisecond)
		c.wantLeases(0)
	})
}

func TestNothingIsAcquiredAfterClose(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.held()
		for _, l := range []*fenlock.Locker{c.locker(), c.queuer()} {
			first, second := c.comes(l), c.comes(l)
			time.Sleep(time.Second)
			at := time.Since(c.start)
			wantErr(t, l.Close())
			for _, waits := range []*arrival{first, second} { // the waiter is told, too
				<-waits.done
				wantErr(t, waits.err, fenlock.ErrClosed)
			}
			c.wantNow(at)
			before := c.requests(allOps)
			_, err := l.Acquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrClosed)
			_, err = l.TryAcquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrClosed)
			wantErr(t, l.Do(t.Context(), name, nil), fenlock.ErrClosed)
			c.wantRequests(allOps, before)
		}
	})
}

// Locks that are still held go on being extended, and with a hung node some request is always under
// way. Close must end all the same, within the two node timeouts that it promises.
func TestCloseEndsWhileLocksAreHeld(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.set(0, 1, allOps, fault{hang: true})
		l := c.locker()
		for i := range 20 { // each is extended every 3.3 s, which takes 0.5 s
			take(t, l, fmt.Sprint("name ", i))
			time.Sleep(third / 20)
		}
		time.Sleep(third / 2) // extensions are under way, and may be answered late
		begun := time.Now()
		time.AfterFunc(10*nodeTimeout, func() { c.set(0, 1, allOps, fault{}) }) // or it might never return
		l.Close()
		if took := time.Since(begun); took > 2*nodeTimeout {
			t.Errorf("Close has returned after %v", took)
		}
	})
}

// What a hung node has not answered in time may be of use later. Close does not wait for that.
func TestCloseDoesNotWaitForLateAnswers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		lock := take(t, l, name)
		time.Sleep(third / 2) // nothing else is under way
		c.set(0, 1, allOps, fault{hang: true})
		begun := time.Now()
		wantErr(t, lock.Release(t.Context()))
		l.Close()
		if took := time.Since(begun); took > nodeTimeout {
			t.Errorf("Close has returned after %v", took)
		}
	})
	bubble(t, 3, func(t *testing.T, c *cluster) {
		l := c.locker()
		c.set(0, 3, allOps, fault{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), nodeTimeout/2)
		defer cancel()
		begun := time.Now()
		_, err := l.Acquire(ctx, name)
		wantErr(t, err, context.DeadlineExceeded)
		l.Close()
		if took := time.Since(begun); took > 2*nodeTimeout {
			t.Errorf("Close has returned after %v", took)
		}
	})
}

// A lock may be released, and another one be asked for, while the Locker is being
// closed: both come to something.
func TestCloseBesideEverythingElse(t *testing.T) {
	for range 300 {
		l := newLocker(t, fenlock.Config{Nodes: nodes(3)})
		ctx := context.Background()
		lock := take(t, l, "held")
		var all sync.WaitGroup
		for _, f := range []func(){
			func() { l.Close() },
			func() { l.Close() },
			func() { lock.Extend(ctx) },
			func() { lock.Release(ctx) },
			func() { l.TryAcquire(ctx, "x") },
			func() { l.Acquire(ctx, "y") },
			func() { l.Acquire(ctx, "held") },
		} {
			all.Go(f)
		}
		all.Wait()
	}
}

// Ten thousand locks are held and extended with no goroutine of their own, and
// leave nothing behind (bug 21).
func TestTenThousandLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := nodes(3)
		l := newLocker(t, fenlock.Config{Nodes: nodes})
		goroutines := runtime.NumGoroutine()
		locks := make([]*fenlock.Lock, 10_000)
		for i := range locks {
			locks[i] = take(t, l, fmt.Sprint("name ", i))
			time.Sleep(100 * time.Microsecond)
		}
		for range 2 { // at moments without a request under way
			time.Sleep(ttl/3 - 50*time.Microsecond)
			synctest.Wait()
			if n := runtime.NumGoroutine() - goroutines; n > 100 {
				t.Fatalf("%d goroutines for %d locks", n, len(locks))
			}
		}
		for _, lock := range locks {
			wantErr(t, lock.Release(t.Context()))
			wantCause(t, lock.Context(), fenlock.ErrReleased)
		}
		synctest.Wait()
		for _, member := range nodes {
			wantErr(t, member.Engine().(node.Admin).List(t.Context(), "", func(l node.Lease) bool {
				t.Errorf("node %s has a lease of %q left", member, l.Name)
				return false
			}))
		}
		runtime.GC() // stops the world: a goroutine that ends is counted while it is being put away
		if n := runtime.NumGoroutine() - goroutines; n > 10 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}

// silent is a node.Starter that executes what it is asked and keeps the answers to itself.
type silent struct {
	*memnode.Node
	mu   sync.Mutex
	kept []func()
}

func (s *silent) start(r node.Request, call node.Call) {
	answer, err := s.Do(context.Background(), r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, func() { call.Done(answer, err) })
}

// Close waits for what was started as for any request: no goroutine is counted for it.
func TestCloseWaitsForStarters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{Node: memnode.New("a node")}
		l := newLocker(t, fenlock.Config{Nodes: []fenlock.Node{ordered{s, s.start}}, TTL: 10 * time.Second,
			NodeTimeout: time.Second})
		go l.TryAcquire(context.Background(), "x")
		time.Sleep(400 * time.Millisecond)
		begin := time.Now()
		l.Close()
		// The acquire has 600 ms left, its release another second.
		if took := time.Since(begin); took != 1600*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, tell := range s.kept {
			tell()
		}
	})
}
