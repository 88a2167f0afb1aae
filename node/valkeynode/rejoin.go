package valkeynode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode/internal/admission"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	var earlier []*admission.Voting
	for _, member := range g.Nodes {
		other, ok := member.Engine().(*Node)
		if other == n {
			break
		}
		if ok {
			earlier = append(earlier, other.voting)
		}
	}
	return n.voting.Join(g, earlier)
}

// Registers implements node.Rejoiner. It reads in one transaction.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.voting.Registers(ctx)
	return r, n.errors.Fail(err)
}
