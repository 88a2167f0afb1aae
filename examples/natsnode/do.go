package natsnode

import (
	"context"
	"errors"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.Check(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	ctx, done, err := n.begin(ctx)
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), node.NotSent(err))
	}
	defer done()
	for {
		a, err := n.try(ctx, r)
		if errors.Is(err, errChanged) {
			continue // somebody else got on; nothing was done here
		}
		if err != nil {
			return node.Answer{}, n.errorf(r.Op.String(), err)
		}
		return a, nil
	}
}

// try carries out an operation, unless the record is changed by somebody else meanwhile.
// Until it writes, nothing is done.
func (n *Node) try(ctx context.Context, r node.Request) (a node.Answer, err error) {
	now, err := n.clock(ctx)
	if err != nil {
		return a, node.NotSent(err)
	}
	stored, err := n.read(ctx, node.Stripe(r.Name))
	if err != nil {
		return a, node.NotSent(err)
	}
	o := stored.Begin(r.Name, now, nil)
	a, _ = rule.Serve(&o.Entry, nil, now, r)
	o.Commit()
	if a.Status != node.Granted && r.Op != node.Release {
		return a, nil
	}
	return a, n.write(ctx, stored, now)
}
