package tests

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// A release while no waiter can be notified, because the subscriptions are cut, drops the waiter
// from the queues. It looks again when it can be called again.
func TestWaiterWhoseSubscriptionsAreCut(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		allowLong(servers)
		holder, waiter := newLocker(t, urls(servers), long), newLocker(t, urls(servers), long)
		handOver(t, servers, holder, waiter, 24, func(round int, held *fenlock.Lock) {
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
		})
	})
}

// The same with all connections, the holder's among them.
func TestWaiterWhenAllConnectionsAreCut(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		holder, waiter := newLocker(t, urls(servers)), newLocker(t, urls(servers))
		handOver(t, servers, holder, waiter, 6, func(round int, held *fenlock.Lock) {
			for _, s := range servers {
				s.Do("CLIENT", "KILL", "TYPE", "pubsub")
				s.Do("CLIENT", "KILL", "TYPE", "normal")
			}
			time.Sleep(time.Duration(round%3) * 30 * time.Millisecond)
			// Whether a request on a connection that is gone was executed is not
			// known. Then the lease ends by itself.
			if err := held.Release(bounded(t)); err != nil && !errors.Is(err, fenlock.ErrNoQuorum) {
				t.Errorf("round %d: %v", round, err)
			}
		})
	})
}

// handOver has the waiter wait behind the holder, and get the lock by a release. The room
// has one bound for all rounds: a waiter that relied on looking again by itself would
// need longer.
func handOver(t *testing.T, servers []*testserver.Server, holder, waiter *fenlock.Locker, rounds int,
	release func(round int, held *fenlock.Lock)) {
	t.Helper()
	visits := newRoom(t)
	var want []string
	for round := range rounds {
		// A name of its own: where the round before is not over yet, the holder
		// would be in the queue too, until it releases.
		who, name := fmt.Sprint(round), fmt.Sprint("orders/", round)
		held := acquire(t, holder, name)
		done := visits.waits(who, waiter, name)
		awaitQueue(t, servers, lineOf(name), 1)
		release(round, held)
		<-done
		want = append(want, who)
		if visits.check(t, want...); t.Failed() {
			return
		}
	}
	nothingLeft(t, servers)
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

// A majority loses its memory, and with it the lease and the lines. The waiter gets
// the lock when the servers vote again, and not before the holder has lost it.
func TestWaiterWhenAMajorityIsLost(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		held := acquire(t, newLocker(t, urls(servers)), "orders")
		type result struct {
			lock *fenlock.Lock
			lost bool // the holder knew that it had lost the lock
			err  error
		}
		got := make(chan result)
		waiter, ctx := newLocker(t, urls(servers)), bounded(t)
		go func() {
			lock, err := waiter.Acquire(ctx, "orders")
			got <- result{lock, held.Context().Err() != nil, err}
		}()
		awaitQueue(t, servers, lineOf("orders"), 1)
		for _, s := range servers[:3] {
			s.Kill()
		}
		for _, s := range servers[:3] {
			s.Restart()
		}
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		if !r.lost || r.lock.Token() <= held.Token() {
			t.Errorf("token %d after %d; the holder had lost the lock: %t", r.lock.Token(), held.Token(), r.lost)
		}
		release(t, r.lock)
		nothingLeft(t, servers)
	})
}
