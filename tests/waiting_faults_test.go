package tests

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// A release while nobody can be called, because the subscriptions are cut, drops
// the waiter from the lines. It looks again when it can be called again.
func TestWaiterWhoseSubscriptionsAreCut(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := longGroup(t, kind, 3)
		holder, waiter := newLocker(t, urls(servers), long), newLocker(t, urls(servers), long)
		// One bound for all rounds: a waiter that relied on looking again by
		// itself would need longer.
		ctx := bounded(t)
		visits := newRoom(t)
		var want []string
		for round := range 24 {
			// A name of its own: where the round before is not over yet, the holder
			// would be in the queue too, until it releases.
			who, name := fmt.Sprint(round), fmt.Sprint("orders/", round)
			held := acquire(t, holder, name)
			done := visits.waits(ctx, who, waiter, name)
			awaitQueue(t, servers, lineOf(name), 1)
			for _, s := range servers {
				if n := s.Do("CLIENT", "KILL", "TYPE", "pubsub"); n == "0" {
					t.Fatalf("%s has no subscription", s.Addr())
				}
			}
			// Mostly while nobody subscribes, sometimes when somebody does again.
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

// The same with all connections, the holder's among them.
func TestWaiterWhenAllConnectionsAreCut(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		holder, waiter := newLocker(t, urls(servers)), newLocker(t, urls(servers))
		ctx := bounded(t)
		visits := newRoom(t)
		var want []string
		for round := range 6 {
			// A name of its own: where the round before is not over yet, the holder
			// would be in the queue too, until it releases.
			who, name := fmt.Sprint(round), fmt.Sprint("orders/", round)
			held := acquire(t, holder, name)
			done := visits.waits(ctx, who, waiter, name)
			awaitQueue(t, servers, lineOf(name), 1)
			for _, s := range servers {
				s.Do("CLIENT", "KILL", "TYPE", "pubsub")
				s.Do("CLIENT", "KILL", "TYPE", "normal")
			}
			time.Sleep(time.Duration(round%3) * 30 * time.Millisecond)
			// Whether a request on a connection that is gone was executed is not
			// known. Then the lease ends by itself.
			if err := held.Release(ctx); err != nil && !errors.Is(err, fenlock.ErrNoQuorum) {
				t.Errorf("round %d: %v", round, err)
			}
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
		servers := group(t, kind, 3, "appendonly yes", "appendfsync always")
		for _, s := range servers {
			s.Do("HSET", "fenlock-registers:fenlock:", "durable", "1")
		}
		held := acquire(t, newLocker(t, urls(servers)), "orders")
		ctx := bounded(t)
		visits := newRoom(t)
		var all []<-chan struct{}
		waiters := []string{"first", "second", "third"}
		for i, who := range waiters {
			all = append(all, visits.waits(ctx, who, newLocker(t, urls(servers)), "orders"))
			awaitQueue(t, servers, lineOf("orders"), i+1)
		}
		for _, s := range servers {
			s.Kill()
			s.Restart()
			awaitAdmission(t, s)
		}
		awaitQueue(t, servers, lineOf("orders"), len(waiters))
		visits.check(t) // nobody yet
		release(t, held)
		for _, done := range all {
			<-done
		}
		visits.check(t, waiters...)
		nothingLeft(t, servers)
	})
}

// awaitAdmission waits until a server that was restarted votes again.
func awaitAdmission(t *testing.T, s *testserver.Server) {
	t.Helper()
	eventually(t, func() error {
		id := regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(s.Do("INFO", "replication"))[1]
		if s.Do("HGET", "fenlock-registers:fenlock:", "admitted") != id {
			return fmt.Errorf("%s is not admitted", s.Addr())
		}
		return nil
	})
}

// A majority loses its memory, and with it the lease and the lines. The waiter gets
// the lock when the servers vote again, and not before the holder has lost it.
func TestWaiterWhenAMajorityIsLost(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
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
