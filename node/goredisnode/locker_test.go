package goredisnode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/redis/go-redis/v9"
)

// group starts three servers that have been admitted, and returns what makes a Locker on
// them, with a client of its own for each server.
func group(t *testing.T, kind testserver.Kind, ttl time.Duration) ([]*testserver.Server, func() *fenlock.Locker) {
	t.Helper()
	servers := testserver.Group(t, kind, 3)
	for _, s := range servers {
		s.MarkAdmitted("fenlock:", ttl)
	}
	return servers, func() *fenlock.Locker {
		var nodes []node.Node
		for _, s := range servers {
			nodes = append(nodes, open(t, clientOf(t, s.Addr())))
		}
		return lockerOf(t, ttl, nodes...)
	}
}

// The waiters of several processes are served in their order, also while a server is killed. Each
// has a larger token than the one before.
func TestWaitersAndAKilledServer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers, locker := group(t, kind, 30*time.Second) // a node may be late by a second
		first := locker()
		held, err := first.Acquire(bounded(t), "orders")
		if err != nil {
			t.Fatal(err)
		}
		const waiting = 6
		var mu sync.Mutex
		var order []int
		var tokens []uint64
		var all sync.WaitGroup
		for i := range waiting {
			l := locker()
			all.Go(func() {
				lock, err := l.Acquire(bounded(t), "orders")
				if err != nil {
					t.Errorf("waiter %d: %v", i, err)
					return
				}
				mu.Lock()
				order, tokens = append(order, i), append(tokens, uint64(lock.Token()))
				mu.Unlock()
				if err := lock.Release(bounded(t)); err != nil {
					t.Errorf("waiter %d: %v", i, err)
				}
			})
			eventually(t, func() error { // it waits before the next one comes
				for _, s := range servers {
					if n := s.Do("ZCARD", "fenlock-line:fenlock:orders"); n != fmt.Sprint(i+1) {
						return fmt.Errorf("%s waiters", n)
					}
				}
				return nil
			})
		}
		servers[0].Kill()
		if err := held.Release(bounded(t)); err != nil {
			t.Error(err)
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != waiting {
			t.Errorf("served in the order %v", order)
		}
		if !slices.IsSorted(tokens) || slices.Min(tokens) <= uint64(held.Token()) {
			t.Errorf("tokens %v after %d", tokens, held.Token())
		}
	})
}

// A lock that is held outlives its servers' loss, one after the other, and is told when a
// majority is gone.
func TestHeldThroughARestart(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers, locker := group(t, kind, 1500*time.Millisecond)
		l := locker()
		held, err := l.Acquire(bounded(t), "orders")
		if err != nil {
			t.Fatal(err)
		}
		servers[0].Kill()
		servers[0].Restart()
		eventually(t, func() error { // it votes again, and has the lease
			if servers[0].Do("EXISTS", "fenlock:orders") != "1" {
				return errors.New("no lease yet")
			}
			return nil
		})
		if err := held.Context().Err(); err != nil {
			t.Fatalf("lost while two of three were there: %v", context.Cause(held.Context()))
		}
		servers[1].Kill()
		servers[2].Kill()
		select {
		case <-held.Context().Done():
		case <-time.After(3 * time.Minute):
			t.Fatal("the holder was not told")
		}
		if held.Remaining() > 0 {
			t.Error("told, and it is held")
		}
	})
}

// Many locks at once go over few connections.
func TestManyLocks(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	s.MarkAdmitted("fenlock:", time.Minute)
	c := clientOf(t, s.Addr(), func(o *redis.Options) { o.PoolSize = 4 })
	l := lockerOf(t, time.Minute, open(t, c))
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			lock, err := l.Acquire(bounded(t), fmt.Sprint(i))
			if err == nil {
				err = lock.Release(bounded(t))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if keys := s.Do("KEYS", "fenlock:*"); keys != "[]" {
		t.Errorf("left behind: %s", keys)
	}
}
