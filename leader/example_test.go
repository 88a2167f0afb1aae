package leader_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
	"github.com/fenlock/fenlock/node/memnode"
)

// Several processes run this; one of them works, and another one when that one has gone.
func ExampleLead() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx, stop := context.WithCancel(context.Background()) // by a signal, for example

	err = leader.Lead(ctx, locker, "scheduler", func(ctx context.Context, term fence.Token) error {
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
func ExampleFollow() {
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}, Label: "10.0.0.7:8080"})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()
	if _, err := locker.Acquire(ctx, "scheduler", fenlock.WithMaxHold(-1)); err != nil {
		log.Fatal(err)
	}

	for leader, err := range leader.Follow(ctx, admin.Of(locker), "scheduler") {
		switch {
		case err != nil:
			fmt.Println("unknown: ", err)
		case leader.Term == 0:
			fmt.Println("no leader")
		default:
			fmt.Println("ask", leader.Label)
		}
		break // it would go on with each change
	}
	// Output: ask 10.0.0.7:8080
}
