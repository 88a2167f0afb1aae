package respnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
)

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	var earlier []*admission.Voting
	var members []string
	passed := false
	for _, member := range g.Nodes {
		other, ok := member.Engine().(*Node)
		switch {
		case !ok:
			members = append(members, memberOf(member))
			continue
		case other == n:
			passed = true
		case !passed:
			earlier = append(earlier, other.voting)
		}
		members = append(members, other.server.Member)
	}
	return n.voting.Join(g, members, earlier)
}

// memberOf is what all clients of a group call a node of another engine.
func memberOf(n node.Node) string {
	if named, ok := n.Engine().(interface{ Member() string }); ok {
		return named.Member()
	}
	return n.String()
}

// Registers implements node.Rejoiner. It reads in one transaction.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	r, err := n.voting.Registers(ctx)
	return r, n.errors.Fail(err)
}
