package fenlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

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

// Two accounts are changed together. A transfer the other way round at the same time does not
// deadlock.
func ExampleLocker_AcquireAll() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()

	locks, err := locker.AcquireAll(ctx, []string{"account/7", "account/3"}, fenlock.WithWait(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Release(ctx)
	for _, name := range locks.Names() {
		fmt.Println(name, locks.Token(name).Valid()) // each account has a guard of its own
	}
	// Output:
	// account/3 true
	// account/7 true
}

// At most five encode at a time, whatever number of processes runs this.
func ExampleSlots() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	slots, err := locker.Slots("encode", 5) // once in a process
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	slot, err := slots.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer slot.Release(ctx)
	fmt.Println(slot.Number() < 5, slot.Token().Valid(), slot.Remaining() > 0)
	// Output: true true true
}

// A process that is to be replaced, by a new version of itself for example, hands its lock over
// instead of releasing it. No waiter gets in between. The text goes by a pipe to the new process
// only.
func ExampleLock_Export() {
	store := memnode.New("n")
	locker := func() *fenlock.Locker { // of each process
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{store.Share()}})
		if err != nil {
			log.Fatal(err)
		}
		return l
	}
	before, after, ctx := locker(), locker(), context.Background()
	defer before.Close()
	defer after.Close()

	lock, err := before.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	text, err := lock.Export(ctx)
	if err != nil {
		log.Fatal(err) // and it is still held, unless that matches ErrLost
	}
	fmt.Println("over for the one:", errors.Is(context.Cause(lock.Context()), fenlock.ErrExported))

	adopted, err := after.Adopt(ctx, text)
	switch {
	case errors.Is(err, fenlock.ErrLost):
		log.Fatal("too late: acquire it, and look what is left to do")
	case errors.Is(err, fenlock.ErrNoQuorum):
		log.Fatal("the nodes are down: try again, with the same text")
	case err != nil:
		log.Fatal(err)
	}
	defer adopted.Release(ctx)
	fmt.Println("the other one holds", adopted.Name(), "with the same token:", adopted.Token() == lock.Token())
	// Output:
	// over for the one: true
	// the other one holds orders/42 with the same token: true
}

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
