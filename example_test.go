package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/memnode"
)

// The nodes are in memory, so that the examples run. A process of production opens
// nodes on servers, with package valkeynode.

func ExampleLocker_Do() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	var guard fence.Guard // belongs to what is written
	err = locker.Do(context.Background(), "orders/42", func(ctx context.Context, token fence.Token) error {
		return guard.Do(ctx, "orders/42", token, func() error {
			fmt.Println("written under the lock")
			return nil
		})
	})
	switch {
	case errors.Is(err, fenlock.ErrNoQuorum):
		fmt.Println("too few nodes answer")
	case errors.Is(err, fenlock.ErrLost):
		fmt.Println("lost while working")
	case err != nil:
		fmt.Println(err)
	}
	// Output: written under the lock
}

func ExampleLocker_Acquire() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background() // its end is that of the wait

	lock, err := locker.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", lock.Context().Err() == nil, "with a token:", lock.Token().Valid())

	if err := lock.Release(ctx); err != nil {
		log.Fatal(err) // it was lost, or too few nodes answered
	}
	fmt.Println(context.Cause(lock.Context()))
	// Output:
	// held: true with a token: true
	// fenlock: the lock was released: "orders/42"
}

func ExampleLocker_TryAcquire() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}, Label: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	first, err := locker.TryAcquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer first.Release(ctx)

	_, err = locker.TryAcquire(ctx, "nightly-report")
	var held *fenlock.HeldError
	if errors.As(err, &held) {
		fmt.Println("not today:", held.HeldBy, "has it")
	}
	// Output: not today: worker-1 has it
}
