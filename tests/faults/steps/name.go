//go:build linux

package steps

import (
	"fmt"

	"github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
)

// name is one of the locks.
type name struct {
	*trace.Group
	key, stripe string
	rounds      map[uint64]bool   // the extensions that have started: see round
	readers     map[uint64]bool   // the holders that came to share the name
	known       map[uint64]bool   // tokens that were given
	told        map[uint64]uint64 // by holder: the token that it has told, or the last that it asked to confirm
	finished    map[uint64]uint64 // by holder: the token that a quorum has promised to it
}

// newName returns a lock to which nothing has happened yet.
func newName(of string, c Claims, nodes int) *name {
	mc := trace.Of("tokens.model")
	if c.Shared {
		mc = trace.Of("shared.model")
	}
	n := &name{Group: mc.NewGroup(mc.NewOpen(), nodes), key: prefix + of, stripe: fmt.Sprint(node.Stripe(of)),
		rounds: map[uint64]bool{}, readers: map[uint64]bool{}, known: map[uint64]bool{}, told: map[uint64]uint64{},
		finished: map[uint64]uint64{}}
	for _, t := range c.Tokens[of] {
		n.known[t] = true
	}
	return n
}

// begin has a holder begin. Whether it wants to share the name, and of how many slots it has one,
// never changes.
func (n *name) begin(holder uint64, q *request) error {
	if q.shares {
		n.readers[holder] = true
		n.Fix("reader", 1, holder)
	}
	n.Fix("slots", slots(q.holder), holder)
	return n.Begin(holder)
}

// finish has a holder finish as soon as it can, if a client has told that the token was given. It
// does not, if the holder has told another token.
func (n *name) finish(holder, token uint64) {
	told := n.told[holder]
	if n.finished[holder] != 0 || !n.known[token] || told != 0 && told != token {
		return
	}
	if n.Do("finish", holder, trace.Any, token) == nil {
		n.finished[holder] = token
	}
}

// round is the extension of a holder. All that let others share the name are one, and so are all
// that do not. A holder that came to share the name always lets others (the model's axiom).
func (n *name) round(holder uint64, shares bool) (k uint64) {
	k = 2 * holder
	if shares = shares || n.readers[holder]; shares {
		k++
	}
	n.NewRound(k, holder, shares)
	return k
}
