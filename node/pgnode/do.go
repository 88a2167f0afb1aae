package pgnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
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
	a, err := n.doFast(ctx, r)
	if errors.Is(err, errSlow) {
		return n.doSlow(ctx, r)
	}
	return n.finish(ctx, r, a, err)
}

// doSlow carries out a request by statements of database/sql, and has the node admitted.
func (n *Node) doSlow(ctx context.Context, r node.Request) (node.Answer, error) {
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
		err = n.explain(ctx, contextual(ctx, err))
	}
	return n.finish(ctx, r, a, err)
}

// finish does what follows a request, and returns its outcome.
func (n *Node) finish(ctx context.Context, r node.Request, a node.Answer, err error) (node.Answer, error) {
	if err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), contextual(ctx, err))
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
		usual := n.usual(r)
		if usual {
			a, err = n.callUsual(ctx, r)
		}
		if !usual || errors.Is(err, sql.ErrNoRows) {
			a, err = n.call(ctx, r)
		}
		if err == nil || !again(err) {
			return a, err
		}
	}
	return a, err
}

// usual reports whether to try first what carries out the usual case of an operation. A connection
// that does not prepare statements would plan them each time.
func (n *Node) usual(r node.Request) bool {
	if r.Shared || !n.prepares.Load() || n.unnamed.Load() {
		return false
	}
	switch stripe := node.Stripe(r.Name); r.Op {
	case node.Extend:
		return n.seen[stripe].Load()&n.bit(r.Name) != 0
	case node.Acquire:
		return !n.contended[stripe].Load() && n.seen[stripe].Load()&n.bit(r.Name) != 0
	case node.Release: // with a stamp, the waiter is put into the queue
		return r.Place.Stamp == 0 && !n.contended[stripe].Load() && n.seen[stripe].Load()&n.bit(r.Name) != 0
	}
	return false
}

// callUsual carries out the usual case of an operation. The error matches sql.ErrNoRows if it did
// nothing, as this is not that case.
func (n *Node) callUsual(ctx context.Context, r node.Request) (a node.Answer, err error) {
	name, holder, stripe, ttl := []byte(r.Name), []byte(r.Holder), node.Stripe(r.Name), r.TTL.Milliseconds()
	text, args := n.sql.release, []any{name, holder, stripe}
	switch r.Op {
	case node.Acquire:
		text, args = n.sql.take, []any{name, stripe, holder, ttl, int64(r.Token), n.ourTerms()}
	case node.Extend:
		text, args = n.sql.extend, []any{name, stripe, holder, ttl, int64(r.Token), n.ourTerms(), int64(r.OwnToken)}
	}
	var register int64
	var store sql.NullString
	if err := n.query(ctx, text, args, &register, &store); err != nil {
		return node.Answer{}, err
	}
	return n.answer(r, node.Granted, register, store)
}

// bit is what stands for a name in seen.
func (n *Node) bit(name string) uint64 { return 1 << (maphash.String(n.seed, name) % 64) }

// ourTerms is what operations take the group's terms to be.
func (n *Node) ourTerms() string {
	if of := n.terms.Load(); of != nil {
		return *of
	}
	return ""
}

// served is what fenlock.serve returns.
type served struct {
	status, ahead                     int
	register, remaining, clock, given int64
	quiet, inside                     bool
	heldBy                            []byte
	store                             sql.NullString
}

func (n *Node) call(ctx context.Context, r node.Request) (a node.Answer, err error) {
	var s served
	err = n.query(ctx, n.sql.serve, []any{
		int(r.Op), []byte(r.Name), node.Stripe(r.Name), []byte(r.Holder), r.TTL.Milliseconds(), int64(r.Token),
		int64(r.OwnToken),
		[]byte(r.Place.Waiter), r.Place.Stamp, n.ourTerms(), r.Shared, int64(r.Next),
	}, &s.status, &s.register, &s.heldBy, &s.remaining, &s.ahead, &s.clock, &s.store, &s.quiet, &s.given, &s.inside)
	if err != nil {
		return node.Answer{}, err
	}
	return n.served(r, &s)
}

// served returns what the schema answered, and remembers what it says of the name.
func (n *Node) served(r node.Request, s *served) (a node.Answer, err error) {
	if a, err = n.answer(r, node.Status(s.status), s.register, s.store); err != nil {
		return node.Answer{}, err
	}
	n.contended[node.Stripe(r.Name)].Store(!s.quiet || a.Status == node.Held)
	if bit := n.bit(r.Name); s.inside {
		n.seen[node.Stripe(r.Name)].Or(bit)
	} else {
		n.seen[node.Stripe(r.Name)].And(^bit)
	}
	if a.Status == node.Held {
		holder := node.Holder(s.heldBy)
		a.HeldBy, a.Holder, a.Slots, a.Ahead = holder.Label(), holder.Fingerprint(), holder.Slots(), max(s.ahead, 0)
		a.Given = fence.Token(max(s.given, 0))
		a.Remaining, a.Clock = time.Duration(s.remaining)*time.Millisecond, time.Duration(s.clock)*time.Microsecond
	}
	return a, nil
}

// answer returns what every answer has. It checks that the database is the one it is taken for.
func (n *Node) answer(r node.Request, status node.Status, register int64, store sql.NullString) (
	a node.Answer, err error) {
	if status < node.Granted || status > node.Rejoining || register < 0 || register > int64(fence.MaxToken) {
		return a, fmt.Errorf("the schema answered the status %d and the register %d, which are none: it was changed by hand",
			status, register)
	}
	if status != node.Rejoining && store.Valid {
		if r.Op != node.Release { // which a store that is out carries out as well
			n.admission.Used()
		}
		if err := n.admission.Serves(n.serverOf(store.String)); err != nil {
			return a, err
		}
	}
	return node.Answer{Status: status, Register: fence.Token(register)}, nil
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
