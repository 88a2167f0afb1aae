package natsnode_test

import (
	"context"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/natsnode"
)

// A group of one bucket, which is made once.
func ExampleOpen() {
	n, err := natsnode.Open("nats://n1,n2,n3/LOCKS?creds=/etc/fenlock.creds&replicas=3&sync_interval=always")
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
	if err := n.Migrate(context.Background()); err != nil {
		log.Fatal(err)
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{n}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = locker.Do(context.Background(), "deploy", func(context.Context, fenlock.Token) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
}
