package groups_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/node/memnode"
)

// Names are spread over two groups of servers. Those with a {tag} in common are on one.
func ExampleNew() {
	var config groups.Config
	for _, id := range []string{"north", "south"} { // of all processes, whatever servers are behind them
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New(id)}})
		if err != nil {
			log.Fatal(err)
		}
		config.Groups = append(config.Groups, groups.Group{ID: id, Locker: locker})
	}
	locks, err := groups.New(config)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close() // the Lockers too
	ctx := context.Background()

	for _, name := range []string{"orders/41", "orders/42", "orders/43"} {
		err = locks.Do(ctx, name, func(ctx context.Context, token fence.Token) error {
			group, _ := locks.Of(name)
			fmt.Println(name, "is locked on", group.ID)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	both, err := locks.AcquireAll(ctx, []string{"{customer/7}/cart", "{customer/7}/account"})
	if err != nil {
		log.Fatal(err)
	}
	defer both.Release(ctx)
	fmt.Println("together:", both.Names())
	// Output:
	// orders/41 is locked on south
	// orders/42 is locked on south
	// orders/43 is locked on north
	// together: [{customer/7}/account {customer/7}/cart]
}

// The steps of a change, each of which is done when all processes have done the one before: a third
// group is added.
func ExampleGroups_RaiseTokens() {
	group := func(id string) groups.Group {
		locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New(id)}})
		if err != nil {
			log.Fatal(err)
		}
		return groups.Group{ID: id, Locker: locker}
	}
	north, south, west := group("north"), group("south"), group("west")
	before := groups.Config{Groups: []groups.Group{north, south}}
	during := groups.Config{Groups: []groups.Group{north, south, west}, Old: before.Groups}
	after := groups.Config{Groups: []groups.Group{north, south, west}}

	_ = before // 1. all processes have this
	// 2. one after the other gets this; some have the one before meanwhile
	locks, err := groups.New(during)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	// 3. when the last one with the list before has ended: once, by any process
	if err := locks.RaiseTokens(context.Background()); err != nil {
		log.Fatal(err)
	}
	_ = after // 4. one after the other gets this
	fmt.Println("the third group has its share of the names")
	// Output: the third group has its share of the names
}
