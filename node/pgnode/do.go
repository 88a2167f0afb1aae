package pgnode

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.CheckShared(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	ctx, over, err := n.closing.Begin(ctx)
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	defer over()
	a, err := n.serve(ctx, r)
	if err == nil && a.Status == node.Rejoining {
		// It did nothing. If the node is admitted now, that was in vain.
		if a.Absence, err = n.admission.Admit(ctx); err != nil {
			return node.Answer{}, node.NotSent(n.errorf(r.Op.String(), err))
		}
		if a.Absence == (node.Absence{}) {
			if a, err = n.serve(ctx, r); a.Status == node.Rejoining {
				a.Absence = node.Absence{Cause: node.Changed}
			}
		}
	}
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), n.explain(ctx, contextual(ctx, err)))
	}
	if r.Op == node.Acquire {
		n.sweep()
	}
	if a.Status == node.Held && r.Place.Waiter != "" {
		n.hurry(r.Place.Waiter)
	}
	return a, nil
}

// Shares implements node.Sharer.
func (n *Node) Shares() {}

var _ node.Sharer = (*Node)(nil)

// serve has the server carry out a request. It is sent again only if the server has said that
// it was rolled back.
func (n *Node) serve(ctx context.Context, r node.Request) (a node.Answer, err error) {
	for range tries {
		if a, err = n.call(ctx, r); err == nil || !again(err) {
			return a, err
		}
	}
	return a, err
}

func (n *Node) call(ctx context.Context, r node.Request) (a node.Answer, err error) {
	var terms string
	if of := n.terms.Load(); of != nil {
		terms = *of
	}
	var status, ahead int
	var register, remaining, clock int64
	var heldBy []byte
	var store sql.NullString
	err = n.query(ctx, n.sql.serve, []any{
		int(r.Op), []byte(r.Name), node.Stripe(r.Name), []byte(r.Holder), r.TTL.Milliseconds(), int64(r.Token),
		int64(r.OwnToken),
		[]byte(r.Place.Waiter), r.Place.Stamp, terms, r.Shared,
	}, &status, &register, &heldBy, &remaining, &ahead, &clock, &store)
	if err != nil {
		return node.Answer{}, err
	}
	if status < int(node.Granted) || status > int(node.Rejoining) || register < 0 || register > int64(fence.MaxToken) {
		return node.Answer{}, fmt.Errorf(
			"the schema answered the status %d and the register %d, which are none: it was changed by hand", status, register)
	}
	if node.Status(status) != node.Rejoining && store.Valid {
		if r.Op != node.Release { // which a store that is out carries out as well
			n.admission.Used()
		}
		if err := n.admission.Serves(n.serverOf(store.String)); err != nil {
			return node.Answer{}, err
		}
	}
	a = node.Answer{Status: node.Status(status), Register: fence.Token(register)}
	if a.Status == node.Held {
		holder := node.Holder(heldBy)
		a.HeldBy, a.Holder, a.Slots, a.Ahead = holder.Label(), holder.Fingerprint(), holder.Slots(), max(ahead, 0)
		a.Remaining, a.Clock = time.Duration(remaining)*time.Millisecond, time.Duration(clock)*time.Microsecond
	}
	return a, nil
}

const (
	sweepEvery   = time.Minute
	sweepTimeout = sweepEvery / 2
	sweepMost    = 1000 // transactions of one part: 10,000,000 leases
)

// sweep has what has expired removed, once a minute, in the background. It keeps up with what is
// acquired: one transaction removes rows faster than as many acquisitions make them.
func (n *Node) sweep() {
	now, last := time.Now().UnixMilli(), n.swept.Load()
	if now-last < sweepEvery.Milliseconds() || !n.swept.CompareAndSwap(last, now) {
		return
	}
	n.closing.Spawn(func() {
		ctx, cancel := context.WithTimeout(n.closing, sweepTimeout)
		defer cancel()
		var again bool
		if err := n.query(ctx, n.sql.sweep, []any{1}, &again); err != nil || !again {
			return // another client will, or has
		}
		for part := 2; part <= 4; part++ {
			again = true
			for turn := 0; again && turn < sweepMost; turn++ {
				if err := n.query(ctx, n.sql.sweep, []any{part}, &again); err != nil {
					return // the next sweep will
				}
			}
		}
	})
}
