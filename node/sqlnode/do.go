package sqlnode

import (
	"context"
	"errors"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Shares implements node.Sharer.
func (n *Node) Shares() {}

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	a := synced // may raise a register
	if r.Op == node.Extend && r.Token == 0 || r.Op == node.Release {
		a = writing
	}
	answer, err := n.serve(ctx, a, r)
	if lost := (gone{}); r.Op == node.Extend && errors.As(err, &lost) {
		// The lease is in no file that others find: somebody else may have the name.
		return node.Answer{Status: node.Lost, Detail: lost.Error()}, nil
	}
	if answer.Status == node.Held {
		n.checkPipe(r.Place.Waiter)
	}
	return answer, n.errorf(r.Op.String(), err)
}
