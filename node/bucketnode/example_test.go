package bucketnode_test

import (
	"context"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/bucketnode"
)

// A group of one bucket, with the keys of the environment.
func ExampleOpen() {
	n, err := bucketnode.Open("s3://s3.eu-central-1.amazonaws.com/my-bucket/locks")
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close()
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
