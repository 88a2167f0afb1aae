package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/admit"
)

// A process of another group tries to use the same stores. It has another MaxTTL, or other members,
// of which each store but one is a node. It is refused each time, and writes nothing to a store
// that has terms recorded.

// foreignBegins has it try, again and again until the quiet begins.
func (w *world) foreignBegins() {
	c := newProcess(&w.run, &w.rules.processRules, w.nodes, len(w.clients), w.newClock())
	c.terms, c.says = w.foreignTerms(), w.chance(500_000)
	var next func()
	next = func() {
		w.after(w.wide(2*time.Second), func() {
			if w.quiet {
				return
			}
			nodes := min(len(strings.Fields(c.terms.Members)), len(w.nodes))
			c.try(w.rng.IntN(nodes), func(*try) { next() })
		})
	}
	next()
}

// foreignTerms are such a process's own.
func (w *run) foreignTerms() admit.Terms {
	other := w.terms
	members := strings.Fields(other.Members)
	kind := w.rng.IntN(4)
	if len(members) < 3 {
		kind = w.rng.IntN(3) // a group of one is known by any name
	}
	switch kind {
	case 0:
		other.MaxTTL *= 2
	case 1:
		other.MaxTTL /= 4
	case 2:
		members = append(members, "elsewhere")
	case 3:
		members = slices.Delete(members, len(members)-1, len(members))
	}
	other.Members = strings.Join(members, " ")
	return other
}
