package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/memnode"
)

// A majority of three nodes, of which one may be down.
func ExampleNew() {
	down := memnode.New("c")
	down.Crash()
	locker, err := fenlock.New(fenlock.Config{
		Nodes: []fenlock.Node{memnode.New("a"), memnode.New("b"), down}, // the same for all processes
		Label: "worker-1",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	lock, err := locker.TryAcquire(context.Background(), "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(context.Background())
	fmt.Println("held by two of three")
	// Output: held by two of three
}

// For callers that have no use for the token, and nothing to do about a failed release.
func ExampleLocker_Lock() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	ctx, release, err := locker.Lock(context.Background(), "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer release()
	fmt.Println("report under the lock:", ctx.Err() == nil) // ctx ends when the lock is lost
	// Output: report under the lock: true
}

// Readers share the name; a writer waits until they have gone.
func ExampleLocker_AcquireShared() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	for range 2 {
		reader, err := locker.AcquireShared(ctx, "catalog")
		if err != nil {
			log.Fatal(err)
		}
		defer reader.Release(ctx)
	}
	_, err = locker.TryAcquire(ctx, "catalog")
	fmt.Println("two read, and nobody writes:", errors.Is(err, fenlock.ErrHeld))
	// Output: two read, and nobody writes: true
}

// A writer that has written lets readers in, and goes on reading.
func ExampleLock_Downgrade() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	writer, err := locker.Acquire(ctx, "catalog")
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Release(ctx)
	if err := writer.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	reader, err := locker.AcquireShared(ctx, "catalog")
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Release(ctx)
	fmt.Println("both read")
	// Output: both read
}

// Whichever printer is free.
func ExampleLocker_AcquireAny() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	busy, err := locker.Acquire(ctx, "printer/1")
	if err != nil {
		log.Fatal(err)
	}
	defer busy.Release(ctx)
	lock, err := locker.AcquireAny(ctx, []string{"printer/1", "printer/2"})
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	fmt.Println("print on", lock.Name())
	// Output: print on printer/2
}
