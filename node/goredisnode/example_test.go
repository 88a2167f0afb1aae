package goredisnode_test

import (
	"context"
	"log"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A client that a program has anyway is a node, if it has these three options.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr:                     "redis.example.com:6379",
		MaxRetries:               -1,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close() // the node does not
	n, err := goredisnode.New(client)
	if err != nil {
		log.Fatal(err) // says which option to change
	}
	locker, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	lock, err := locker.Acquire(context.Background(), "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(context.Background())
}
