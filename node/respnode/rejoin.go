package respnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	var earlier []*admission.Voting
	for _, other := range g.Nodes {
		o, ok := other.Engine().(*Node)
		if o == n {
			break
		}
		if ok {
			earlier = append(earlier, o.voting)
		}
	}
	n.voting.Beside(earlier)
	return n.voting.Join(g)
}

// Admission returns what has the server admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.voting.Admission }

// Registers implements node.Rejoiner. It reads in one transaction.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.voting.Registers(ctx)
	return r, n.errors.Fail(err)
}
