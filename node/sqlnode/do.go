package sqlnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.Check(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	a := synced // may raise a register
	if r.Op == node.Extend && r.Token == 0 || r.Op == node.Release {
		a = writing
	}
	answer, err := n.serve(ctx, a, r)
	if answer.Status == node.Held {
		n.checkPipe(r.Place.Waiter)
	}
	return answer, n.errorf(r.Op.String(), err)
}
