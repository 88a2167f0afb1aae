package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Twelve clients come one after the other, and are served like that.
func TestWaitersAreServedInOrder(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := longGroup(t, kind, 5)
		held := acquire(t, newLocker(t, urls(servers), long), "orders")
		ctx := bounded(t)
		visits := newRoom(t)
		var want []string
		var all []<-chan struct{}
		for i := range 12 {
			who := fmt.Sprint(i)
			l := newLocker(t, urls(servers), long)
			// Its connections are there: a client that has to make them first
			// knows the nodes' time less well.
			for range 3 {
				if _, err := l.TryAcquire(ctx, "orders"); !errors.Is(err, fenlock.ErrHeld) {
					t.Fatalf("%v, want ErrHeld", err)
				}
			}
			want = append(want, who)
			all = append(all, visits.waits(ctx, who, l, "orders"))
			time.Sleep(20 * time.Millisecond)
		}
		awaitQueue(t, servers, lineOf("orders"), 12)
		release(t, held)
		for _, done := range all {
			<-done
		}
		visits.check(t, want...)
		nothingLeft(t, servers)
	})
}

// Clients that do not stop trying get nothing while somebody is in the queue, nor
// between a release and the attempt of the waiter that is called for it.
func TestNobodyOvertakesTheOneWhoIsCalled(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		const rounds = 20
		servers := longGroup(t, kind, 3)
		holder, waiter := newLocker(t, urls(servers), long), newLocker(t, urls(servers), long)
		newcomers := []*fenlock.Locker{newLocker(t, urls(servers), long), newLocker(t, urls(servers), long)}
		ctx := bounded(t)
		visits := newRoom(t)
		var want []string
		tries := new(atomic.Int64)
		for round := range rounds {
			name := fmt.Sprint("orders/", round)
			who := fmt.Sprint("waiter ", round)
			held := acquire(t, holder, name)
			done := visits.waits(ctx, who, waiter, name)
			awaitQueue(t, servers, lineOf(name), 1)
			var trying sync.WaitGroup
			served := make(chan struct{})
			began := tries.Load()
			for _, l := range newcomers {
				trying.Go(func() {
					for {
						lock, err := l.TryAcquire(ctx, name)
						tries.Add(1)
						visits.mu.Lock()
						over := len(visits.order) > round
						visits.mu.Unlock()
						switch {
						case err == nil && over:
							lock.Release(ctx)
						case err == nil:
							visits.visit("newcomer", lock)
						case errors.Is(err, context.DeadlineExceeded):
							return
						}
						select {
						case <-served:
							return
						default:
						}
					}
				})
			}
			for tries.Load() < began+10 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			release(t, held)
			<-done
			close(served)
			trying.Wait()
			want = append(want, who)
			if visits.check(t, want...); t.Failed() {
				return
			}
		}
		nothingLeft(t, servers)
	})
}

// Other Redlock clients know nothing of lines: when redsync unlocks, nobody is
// called. The waiters look by themselves, and keep their order.
func TestWaitersBehindRedsync(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := testserver.Group(t, kind, 3)
		var pools []redsyncredis.Pool
		for _, s := range servers {
			markAdmitted(t, s, "")
			c := redis.NewClient(&redis.Options{Addr: s.Addr()})
			t.Cleanup(func() { c.Close() })
			pools = append(pools, goredis.NewPool(c))
		}
		ctx := bounded(t)
		mutex := redsync.New(pools...).NewMutex("orders", redsync.WithExpiry(longTTL), redsync.WithTries(1))
		if err := mutex.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		visits := newRoom(t)
		var all []<-chan struct{}
		for i, who := range []string{"first", "second"} {
			l := newLockerWith(t, urls(servers), []valkeynode.Option{valkeynode.WithPrefix("")})
			all = append(all, visits.waits(ctx, who, l, "orders"))
			awaitQueue(t, servers, "fenlock-line:orders", i+1)
		}
		if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
			t.Fatalf("redsync's unlock: %v, %v", ok, err)
		}
		for _, done := range all {
			<-done
		}
		visits.check(t, "first", "second")
	})
}

// Whoever gives up leaves no place behind, at whatever moment that is.
func TestWaitersThatGiveUpLeaveNothing(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		const clients, waits = 5, 10
		servers := longGroup(t, kind, 5)
		held := acquire(t, newLocker(t, urls(servers), long), "orders")
		var lockers []*fenlock.Locker
		for range clients {
			lockers = append(lockers, newLocker(t, urls(servers), long))
		}
		// Once each that gives up when it is in the queue. After that, a client joins
		// with its first request.
		ctx, cancel := context.WithCancel(bounded(t))
		var all sync.WaitGroup
		for _, l := range lockers {
			all.Go(func() { l.Acquire(ctx, "orders") })
		}
		awaitQueue(t, servers, lineOf("orders"), clients)
		cancel()
		all.Wait()
		for _, l := range lockers {
			all.Go(func() {
				for range waits {
					ctx, cancel := context.WithTimeout(context.Background(), rand.N(5*time.Millisecond))
					if lock, err := l.Acquire(ctx, "orders"); err == nil {
						t.Errorf("%v was granted while it was held", lock)
					}
					cancel()
				}
			})
		}
		all.Wait()

		// Well before a line is forgotten that nobody asks about.
		for end := time.Now().Add(8 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			left := 0
			for _, s := range servers {
				if n := s.Do("ZCARD", lineOf("orders")); n != "0" {
					left++
				}
			}
			if left == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d of %d servers have somebody in the queue who gave up", left, len(servers))
			}
		}
		visits := newRoom(t)
		done := visits.waits(bounded(t), "next", newLocker(t, urls(servers), long), "orders")
		awaitQueue(t, servers, lineOf("orders"), 1)
		release(t, held)
		<-done
		visits.check(t, "next")
		nothingLeft(t, servers)
	})
}
