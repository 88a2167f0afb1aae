package stock_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/examples/stock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/memnode"
)

func locker(t *testing.T, nodes ...*memnode.Node) *fenlock.Locker {
	t.Helper()
	var config fenlock.Config
	for _, n := range nodes {
		config.Nodes = append(config.Nodes, n.Share())
	}
	l, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		store := stock.NewStore(time.Second, map[string]int{"apples": 10})
		start := time.Now()
		var clerks sync.WaitGroup
		for range 3 {
			clerk := stock.Clerk{Locker: locker(t, node), Store: store}
			clerks.Go(func() {
				if err := clerk.Take(t.Context(), "apples", 2); err != nil {
					t.Error(err)
				}
			})
		}
		clerks.Wait()
		// One after the other: each reads for a second and writes for a second.
		if took := time.Since(start); took != 6*time.Second {
			t.Errorf("it took %v", took)
		}
		if left, _ := store.Read(t.Context(), "apples"); left != 4 {
			t.Errorf("%d apples are left", left)
		}
	})
}

func TestHolderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		dies := locker(t, node)
		if _, err := dies.Acquire(t.Context(), "stock/apples"); err != nil {
			t.Fatal(err)
		}
		dies.Close() // it does not release what it holds

		clerk := stock.Clerk{Locker: locker(t, node), Store: stock.NewStore(0, map[string]int{"apples": 1})}
		start := time.Now()
		if err := clerk.Take(t.Context(), "apples", 1); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited < fenlock.DefaultTTL || waited > fenlock.DefaultTTL+time.Second {
			t.Errorf("the lock was free after %v", waited)
		}
	})
}

func TestLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := memnode.New("a"), memnode.New("b"), memnode.New("c")
		store := stock.NewStore(time.Minute, map[string]int{"apples": 10})
		clerk := stock.Clerk{Locker: locker(t, a, b, c), Store: store}

		time.AfterFunc(20*time.Second, a.Crash) // two of three are enough
		time.AfterFunc(80*time.Second, b.Crash) // one is not
		start := time.Now()
		if err := clerk.Take(t.Context(), "apples", 1); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("without a majority: %v", err)
		}
		if after := time.Since(start); after < 80*time.Second || after > 80*time.Second+fenlock.DefaultTTL {
			t.Errorf("the clerk noticed after %v", after)
		}

		// They come back without their memory, and vote when no lease that they
		// forgot can be live.
		a.Restart()
		b.Restart()
		if _, err := clerk.Locker.TryAcquire(t.Context(), "stock/apples"); !errors.Is(err, fenlock.ErrNoQuorum) {
			t.Errorf("just restarted: %v", err)
		}
		time.Sleep(fenlock.DefaultMaxTTL + time.Second)
		if err := clerk.Take(t.Context(), "apples", 1); err != nil {
			t.Errorf("after the quarantine: %v", err)
		}
	})
}

func TestStaleTokenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		store := stock.NewStore(0, map[string]int{"apples": 10})

		cut := node.Share()
		paused, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{cut}})
		if err != nil {
			t.Fatal(err)
		}
		defer paused.Close()
		lock, err := paused.Acquire(t.Context(), "stock/apples")
		if err != nil {
			t.Fatal(err)
		}
		cut.Close() // from now on it cannot extend its lock

		clerk := stock.Clerk{Locker: locker(t, node), Store: store}
		if err := clerk.Take(t.Context(), "apples", 1); err != nil { // waits until the lock is free
			t.Fatal(err)
		}
		if !errors.Is(lock.Extend(t.Context()), fenlock.ErrLost) {
			t.Error("the lock was not lost")
		}
		// It did not look at lock.Context, and writes what it counted long ago.
		if err := store.Write(t.Context(), lock.Token(), "apples", 7); !errors.Is(err, fence.ErrStale) {
			t.Errorf("a stale token: %v", err)
		}
		if left, _ := store.Read(t.Context(), "apples"); left != 9 {
			t.Errorf("%d apples are left", left)
		}
	})
}
