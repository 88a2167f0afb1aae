package node_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// What a Locker asks of a node: here of one in memory.
func ExampleNode() {
	var n node.Node = memnode.New("a")
	defer n.Close()
	ctx := context.Background()

	holder := func(id byte) node.Holder {
		// a random id
		return node.NewHolder([node.IDLength]byte(fmt.Appendf(nil, "%032x", id)), time.Now(), 0, fmt.Sprint("client ", id))
	}
	for _, id := range []byte{1, 2} {
		answer, err := n.Do(ctx, node.Request{
			Op: node.Acquire, Name: "orders/42", Holder: holder(id), TTL: 10 * time.Second, Token: 33,
		})
		if err != nil {
			log.Fatal(err) // the outcome is unknown
		}
		fmt.Printf("%v, register %d, held by %q\n", answer.Status, answer.Register, answer.HeldBy)
	}
	// Output:
	// granted, register 33, held by ""
	// held, register 0, held by "client 1"
}

// counting is a wrapper: it embeds the node, whose Engine it keeps.
type counting struct {
	node.Node
	requests atomic.Int64
}

func (c *counting) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	c.requests.Add(1)
	return c.Node.Do(ctx, r)
}

// A wrapper around any engine.
func ExampleNode_wrapper() {
	n := &counting{Node: memnode.New("a")}
	defer n.Close()
	_, err := n.Do(context.Background(), node.Request{
		Op: node.Acquire, Name: "orders/42", TTL: 10 * time.Second, Token: 33,
	})
	fmt.Println(n.requests.Load(), "request, refused:", err != nil) // it has no holder
	// Output: 1 request, refused: true
}
