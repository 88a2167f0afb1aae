package memnode_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// Two processes on one store: each Locker has a client of its own.
func ExampleNode_Share() {
	store := memnode.New("n")
	process := func(label string) *fenlock.Locker {
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{store.Share()}, Label: label})
		if err != nil {
			log.Fatal(err)
		}
		return locker
	}
	first, second, ctx := process("first"), process("second"), context.Background()
	defer first.Close()
	defer second.Close()

	if _, err := first.Acquire(ctx, "orders/42"); err != nil {
		log.Fatal(err)
	}
	_, err := second.TryAcquire(ctx, "orders/42")
	fmt.Println("held:", errors.Is(err, fenlock.ErrHeld))

	store.Crash()
	_, err = second.TryAcquire(ctx, "orders/43")
	fmt.Println("down:", errors.Is(err, fenlock.ErrNoQuorum))
	// Output:
	// held: true
	// down: true
}
