package fenlock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// A lock may be released, and another one be asked for, while the Locker is being
// closed: both come to something.
func TestCloseBesideEverythingElse(t *testing.T) {
	for range 300 {
		var config fenlock.Config
		for i := range 3 {
			config.Nodes = append(config.Nodes, memnode.New(fmt.Sprint("node ", i)))
		}
		l, err := fenlock.New(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		lock, err := l.TryAcquire(ctx, "held")
		if err != nil {
			t.Fatal(err)
		}
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
