package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node/memnode"
)

// An operator looks at all locks with a prefix, and breaks one whose holder hangs.
func ExampleAdmin() {
	node := memnode.New("n")
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}, Label: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}

	admin, err := admin.New([]fenlock.Node{node}) // of all nodes of the group
	if err != nil {
		log.Fatal(err)
	}
	page, err := admin.List(ctx, "orders/", "", 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range page.Locks {
		fmt.Println(l.Name, "is held by", l.Label)
	}
	broken, err := admin.ForceRelease(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("later tokens are larger than the old holder's:", broken.Token > lock.Token())
	fmt.Println("it hears of that:", errors.Is(lock.Extend(ctx), fenlock.ErrLost))
	// Output:
	// orders/42 is held by worker-1
	// later tokens are larger than the old holder's: true
	// it hears of that: true
}
