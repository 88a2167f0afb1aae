package shell

import (
	"testing"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// A client that does not wait is told that another one holds only if one lease is known to have a
// quorum. Clients may have one label, and a node may not tell whose the lease is.
func TestHeldCountsHolders(t *testing.T) {
	by := func(holder uint64, label string) said {
		return said{op: core.Acquire, answer: node.Answer{Status: node.Held, Holder: holder, HeldBy: label}}
	}
	took := said{op: core.Acquire, answer: node.Answer{Status: node.Granted}}
	next := by(9, node.NextInQueue)
	for _, c := range []struct {
		name string
		said []said
		met  bool
		by   string
	}{
		{"two with one label", []said{by(1, "a"), by(2, "a"), took}, true, "a"},
		{"three with one label", []said{by(1, "a"), by(2, "a"), by(3, "a")}, true, "a"},
		{"one has a quorum", []said{by(1, "a"), by(2, "a"), by(2, "a")}, false, "a"},
		{"one has a quorum, of other labels", []said{by(1, "a"), by(2, "b"), by(2, "b")}, false, "b"},
		{"several share it, of which a node shows one first", []said{by(1, "a and 1 more"), by(1, "b and 1 more"), took},
			false, "b and 1 more"},
		{"labels are all that is told", []said{by(0, "a"), by(0, "a"), took}, false, "a"},
		{"different labels are", []said{by(0, "a"), by(0, "b"), took}, true, "a"},
		{"another program, as a node tells", []said{by(0, ""), by(0, ""), took}, false, ""},
		{"other programs", []said{by(1, ""), by(2, ""), took}, true, ""},
		{"another program has more than a client", []said{by(1, ""), by(1, ""), by(2, "a")}, false, "a"},
		{"the next in the queue", []said{next, by(1, "a"), took}, false, "a"},
	} {
		peers := make([]peerState, len(c.said))
		for i := range peers {
			peers[i].said = c.said[i]
		}
		if f := held(peers, 0); f.Met != c.met || f.HeldBy != c.by {
			t.Errorf("%s: met %v, held by %q", c.name, f.Met, f.HeldBy)
		}
	}
}
