package respnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	for _, other := range g.Nodes {
		if first, ok := other.Engine().(*Node); ok {
			n.voting.Beside(first.voting)
			break
		}
	}
	return n.voting.Join(g)
}

// Admission returns what has the server admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.voting.Admission }

// Registers implements node.Rejoiner. It reads in one transaction.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.voting.Registers(ctx)
	return r, n.errors.Fail(err)
}
