package respnode

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Do implements node.Node: it runs the operation's script on a verified and
// admitted server.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	return n.pipelines.Do(ctx, r)
}

// InOrder implements node.Ordered: requests about one name use one pipeline, and one
// connection.
func (n *Node) InOrder() bool { return true }

// Start implements node.Starter.
func (n *Node) Start(r node.Request, timeout time.Duration, call node.Call) {
	n.pipelines.Start(r, timeout, call)
}
