package mysqlnode_test

import (
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/mysqlnode"
)

func ExampleOpen() {
	node, err := mysqlnode.Open("mysql://locks@db.example/locks")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close() // the node too
}
