package zknode_test

import (
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/zknode"
)

func ExampleOpen() {
	node, err := zknode.Open("zk://zk1,zk2,zk3")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close() // the node too
}
