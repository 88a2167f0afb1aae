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
	ctx, done, err := n.life.Begin(ctx)
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	defer done()
	a, err := n.serve(ctx, r)
	if err == nil && a.Status == node.Rejoining {
		// It did nothing. If the node is admitted now, that was in vain.
		if a.Absence, err = n.admission.Admit(ctx); err != nil {
			err = node.NotSent(err)
		} else if a.Absence == (node.Absence{}) {
			if a, err = n.serve(ctx, r); err == nil && a.Status == node.Rejoining {
				a.Absence = node.Absence{Cause: node.Changed}
			}
		}
	}
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	return a, nil
}

// serve carries out an operation, and begins it anew if another client was first.
func (n *Node) serve(ctx context.Context, r node.Request) (node.Answer, error) {
	for {
		if a, err := n.try(ctx, r); !errors.Is(err, errChanged) {
			return a, err
		}
	}
}

// try carries out an operation, unless another client changes the record meanwhile.
// Until it writes, nothing is done.
func (n *Node) try(ctx context.Context, r node.Request) (a node.Answer, err error) {
	stored, at, m, err := n.load(ctx, node.Stripe(r.Name))
	if err == nil && r.Op != node.Release {
		if err = n.admission.Check(m.Terms); err == nil {
			err = n.admission.Serves(at.server)
		}
	}
	if err != nil {
		return a, node.NotSent(err)
	}
	o := stored.Begin(r.Name, at.clock, nil)
	a, _ = rule.Serve(&o.Entry, nil, at.clock, r)
	o.Commit()
	// Where the bucket is out, no lease is of use: not even one that a late acquire makes.
	if stored.Out || a.Status != node.Granted && r.Op != node.Release {
		return a, nil
	}
	return a, n.write(ctx, stored, at)
}
