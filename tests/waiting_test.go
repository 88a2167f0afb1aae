package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/go-redsync/redsync/v4"
)

// Twelve clients come one after the other, and are served like that.
func TestWaitersAreServedInOrder(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		allowLong(servers)
		held := acquire(t, newLocker(t, urls(servers), long), "orders")
		visits := newRoom(t)
		var want []string
		for i := range 12 {
			who := fmt.Sprint(i)
			l := newLocker(t, urls(servers), long)
			// Its connections are there: a client that has to make them first
			// knows the nodes' time less well.
			for range 3 {
				if _, err := l.TryAcquire(visits.ctx, "orders"); !errors.Is(err, fenlock.ErrHeld) {
					t.Fatalf("%v, want ErrHeld", err)
				}
			}
			want = append(want, who)
			visits.waits(who, l, "orders")
			time.Sleep(20 * time.Millisecond)
		}
		awaitQueue(t, servers, lineOf("orders"), 12)
		release(t, held)
		visits.waiting.Wait()
		visits.check(t, want...)
		nothingLeft(t, servers)
	})
}

// Other Redlock clients know nothing of lines: when redsync unlocks, no waiter is notified. The
// waiters look by themselves, and keep their order.
func TestWaitersBehindRedsync(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers, _ := plainGroup(t, kind, 3)
		ctx := bounded(t)
		mutex := redsyncOn(t, servers).NewMutex("orders", redsync.WithExpiry(longTTL), redsync.WithTries(1))
		if err := mutex.LockContext(ctx); err != nil {
			t.Fatal(err)
		}
		visits := newRoom(t)
		for i, who := range []string{"first", "second"} {
			visits.waits(who, plainLocker(t, servers), "orders")
			awaitQueue(t, servers, "fenlock-line:orders", i+1)
		}
		if ok, err := mutex.UnlockContext(ctx); !ok || err != nil {
			t.Fatalf("redsync's unlock: %v, %v", ok, err)
		}
		visits.waiting.Wait()
		visits.check(t, "first", "second")
	})
}

// A waiter that gives up leaves no place behind, at whatever moment that is.
func TestWaitersThatGiveUpLeaveNothing(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		const clients, waits = 5, 10
		allowLong(servers)
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

		// Well before a queue expires that is not asked about.
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
		done := visits.waits("next", newLocker(t, urls(servers), long), "orders")
		awaitQueue(t, servers, lineOf("orders"), 1)
		release(t, held)
		<-done
		visits.check(t, "next")
		nothingLeft(t, servers)
	})
}

// A release while no waiter can be notified, because the subscriptions are cut, drops the waiter
// from the queues. It looks again when it can be called again. The room has one bound for all
// rounds: a waiter that relied on looking again by itself would need longer.
func TestWaiterWhoseSubscriptionsAreCut(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		allowLong(servers)
		holder, waiter := newLocker(t, urls(servers), long), newLocker(t, urls(servers), long)
		visits := newRoom(t)
		var want []string
		for round := range 24 {
			// A name of its own: where the round before is not over yet, the holder
			// would be in the queue too, until it releases.
			who, name := fmt.Sprint(round), fmt.Sprint("orders/", round)
			held := acquire(t, holder, name)
			done := visits.waits(who, waiter, name)
			awaitQueue(t, servers, lineOf(name), 1)
			for _, s := range servers {
				if n := s.Do("CLIENT", "KILL", "TYPE", "pubsub"); n == "0" {
					t.Fatalf("%s has no subscription", s.Addr())
				}
			}
			// Mostly while no client subscribes, sometimes when one does again.
			if round%4 == 3 {
				time.Sleep(100 * time.Millisecond)
			}
			release(t, held)
			<-done
			want = append(want, who)
			if visits.check(t, want...); t.Failed() {
				return
			}
		}
		nothingLeft(t, servers)
	})
}

// Durable servers that are restarted one after the other remember who is in the queue,
// and the waiters keep their order.
func TestWaitersWhileServersAreRestarted(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 3, "appendonly yes", "appendfsync always", "aof-load-truncated no")
		for _, s := range servers {
			s.Do("HSET", "fenlock-registers:fenlock:", "durable", "1")
		}
		held := acquire(t, newLocker(t, urls(servers)), "orders")
		visits := newRoom(t)
		waiters := []string{"first", "second", "third"}
		for i, who := range waiters {
			visits.waits(who, newLocker(t, urls(servers)), "orders")
			awaitQueue(t, servers, lineOf("orders"), i+1)
		}
		for _, s := range servers {
			s.Kill()
			s.Restart()
			eventually(t, func() error { return admitted(s) })
		}
		awaitQueue(t, servers, lineOf("orders"), len(waiters))
		visits.check(t) // no client yet
		release(t, held)
		visits.waiting.Wait()
		visits.check(t, waiters...)
		nothingLeft(t, servers)
	})
}
