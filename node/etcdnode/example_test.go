package etcdnode_test

import (
	"context"
	"log"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func ExampleOpen() {
	node, err := etcdnode.Open("etcd://10.0.0.1,10.0.0.2,10.0.0.3")
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
}

// pay writes under a lock with this token.
func pay(ctx context.Context, client *clientv3.Client, token fence.Token) error {
	guard, err := etcdnode.NewGuard(client)
	if err != nil {
		return err
	}
	// Shuts out earlier holders, so that data may be read before the write.
	if _, err := guard.Do(ctx, "orders/42", token); err != nil {
		return err
	}
	_, err = guard.Do(ctx, "orders/42", token, clientv3.OpPut("orders/42", "paid"))
	return err // a *fence.StaleError if a newer token was there
}

func ExampleGuard() {
	_ = pay
}
