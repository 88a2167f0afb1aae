package fenlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// To count and log: integration/fenlockotel is an Observer with metrics and spans.
func ExampleObserver() {
	locker, err := fenlock.New(fenlock.Config{
		Nodes: []fenlock.Node{memnode.New("n")},
		Observer: fenlock.Observer{
			Acquire: func(_ context.Context, e fenlock.AcquireEvent) { fmt.Println(e.Name, e.Outcome()) },
			Release: func(_ context.Context, e fenlock.ReleaseEvent) { fmt.Println(e.Name, "released, lost:", e.Lost()) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	if err := locker.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders/42 acquired
	// orders/42 released, lost: false
}
