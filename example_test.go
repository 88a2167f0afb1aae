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

// Two accounts are changed together. Whoever transfers the other way round at the same time
// does not deadlock.
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

// Several processes run this; one of them works, and another one when that one has gone.
func ExampleLocker_Lead() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx, stop := context.WithCancel(context.Background()) // by a signal, for example

	err = locker.Lead(ctx, "scheduler", func(ctx context.Context, term fence.Token) error {
		fmt.Println("leads")
		stop()
		<-ctx.Done() // the end of ctx, or of the lead
		return nil
	}, fenlock.WithLabel("10.0.0.7:8080"))
	fmt.Println("resigned:", err)
	// Output:
	// leads
	// resigned: <nil>
}

// The others ask where the leader is.
func ExampleAdmin_Follow() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}, Label: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()
	if _, err := locker.Acquire(ctx, "scheduler", fenlock.WithMaxHold(-1)); err != nil {
		log.Fatal(err)
	}

	for leader, err := range locker.Admin().Follow(ctx, "scheduler") {
		switch {
		case err != nil:
			fmt.Println("unknown: ", err)
		case leader.Term == 0:
			fmt.Println("nobody leads")
		default:
			fmt.Println("ask", leader.Label)
		}
		break // it would go on with each change
	}
	// Output: ask 10.0.0.7:8080
}

// Names are spread over two groups of servers. Those with a {tag} in common are on one.
func ExampleNewGroups() {
	var config fenlock.GroupsConfig
	for _, id := range []string{"north", "south"} { // of all processes, whatever servers are behind them
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New(id)}})
		if err != nil {
			log.Fatal(err)
		}
		config.Groups = append(config.Groups, fenlock.Group{ID: id, Locker: locker})
	}
	groups, err := fenlock.NewGroups(config)
	if err != nil {
		log.Fatal(err)
	}
	defer groups.Close() // the Lockers too
	ctx := context.Background()

	for _, name := range []string{"orders/41", "orders/42", "orders/43"} {
		err = groups.Do(ctx, name, func(ctx context.Context, token fence.Token) error {
			group, _ := groups.Of(name)
			fmt.Println(name, "is locked on", group.ID)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	locks, err := groups.AcquireAll(ctx, []string{"{customer/7}/cart", "{customer/7}/account"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Release(ctx)
	fmt.Println("together:", locks.Names())
	// Output:
	// orders/41 is locked on south
	// orders/42 is locked on south
	// orders/43 is locked on north
	// together: [{customer/7}/account {customer/7}/cart]
}

// The steps of a change, each of which is done when all processes have done the one before: a third
// group is added.
func ExampleGroups_RaiseTokens() {
	group := func(id string) fenlock.Group {
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New(id)}})
		if err != nil {
			log.Fatal(err)
		}
		return fenlock.Group{ID: id, Locker: locker}
	}
	north, south, west := group("north"), group("south"), group("west")
	before := fenlock.GroupsConfig{Groups: []fenlock.Group{north, south}}
	during := fenlock.GroupsConfig{Groups: []fenlock.Group{north, south, west}, Old: before.Groups}
	after := fenlock.GroupsConfig{Groups: []fenlock.Group{north, south, west}}

	_ = before // 1. all processes have this
	// 2. one after the other gets this; some have the one before meanwhile
	groups, err := fenlock.NewGroups(during)
	if err != nil {
		log.Fatal(err)
	}
	defer groups.Close()
	// 3. when the last one with the list before has ended: once, by any process
	if err := groups.RaiseTokens(context.Background()); err != nil {
		log.Fatal(err)
	}
	_ = after // 4. one after the other gets this
	fmt.Println("the third group has its share of the names")
	// Output: the third group has its share of the names
}

// A process that is to be replaced, by a new version of itself for example, hands its lock over instead of
// releasing it: who waits in line does not get in between. The text goes by a pipe to the new process, and to nobody else.
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
