package fenlocksingleflight_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/integration/fenlocksingleflight"
	"github.com/fenlock/fenlock/node/memnode"
)

// table is a cache in memory, in the place of one that the processes share.
type table struct {
	guard fence.Guard
	rows  sync.Map
}

func (t *table) Get(_ context.Context, key string) (int, bool, error) {
	v, found := t.rows.Load(key)
	if !found {
		return 0, false, nil
	}
	return v.(int), true, nil
}

func (t *table) Set(ctx context.Context, key string, value int, token fence.Token) error {
	return t.guard.Do(ctx, key, token, func() error {
		t.rows.Store(key, value)
		return nil
	})
}

// The node is in memory, so that the example runs: in production all processes have the same
// servers.
func Example() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	totals, err := fenlocksingleflight.New[int](locker, new(table), "totals")
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		total, err := totals.Do(context.Background(), "2026-11", func(ctx context.Context) (int, error) {
			fmt.Println("computed")
			return 42, nil
		})
		fmt.Println(total, err)
	}
	// Output:
	// computed
	// 42 <nil>
	// 42 <nil>
	// 42 <nil>
}
