package etcdnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
)

// Examine implements node.Examiner.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	return node.Examination{Product: "etcd", Member: n.member}, n.errorf("examine", n.enter(ctx))
}
