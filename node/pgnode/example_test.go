package pgnode_test

import (
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/pgnode"
)

func ExampleOpen() {
	node, err := pgnode.Open("postgres://app@db.example/app")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close() // the node too
}
