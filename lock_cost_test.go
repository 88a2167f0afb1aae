//go:build !race

package fenlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// What a lock costs in allocations is known exactly, on any number of nodes. A
// change that makes it more has to say why; one that makes it less changes the
// number here. (The race detector adds some of its own.)
func TestAllocations(t *testing.T) {
	const (
		tryAcquire = 6 // lock, rooms, holder, told, context and its cancel
		acquire    = 6 // the lock is a part of the waiter
		extend     = 4 // fanout, calls, outcome, done
	)
	for _, nodes := range []int{1, 5, 15} {
		config := fenlock.Config{TTL: time.Minute, MaxTTL: time.Minute, Label: "me", Logger: slog.New(slog.DiscardHandler)}
		for i := range nodes {
			config.Nodes = append(config.Nodes, ordered{memnode.New(fmt.Sprint("node ", i)), grant})
		}
		l := newLocker(t, config)
		ctx := context.Background()
		cycle := func(take func(context.Context, string, ...fenlock.Option) (*fenlock.Lock, error),
			use func(*fenlock.Lock) error) func() {
			return func() {
				lock, err := take(ctx, "orders/42")
				if err == nil {
					err = use(lock)
				}
				if err == nil {
					err = lock.Release(ctx)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		nothing := func(*fenlock.Lock) error { return nil }
		for what, c := range map[string]struct {
			f    func()
			want float64
		}{
			"TryAcquire and Release": {cycle(l.TryAcquire, nothing), tryAcquire},
			"Acquire and Release":    {cycle(l.Acquire, nothing), acquire},
			"TryAcquire, Extend and Release": {cycle(l.TryAcquire, func(k *fenlock.Lock) error { return k.Extend(ctx) }),
				tryAcquire + extend},
		} {
			if got := testing.AllocsPerRun(200, c.f); got != c.want {
				t.Errorf("%d nodes: %s: %v allocations; want %v", nodes, what, got, c.want)
			}
		}
	}
}
