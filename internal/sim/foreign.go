package sim

import (
	"fmt"
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
	c := &client{w: w, id: len(w.clients), clock: w.newClock(), terms: w.foreignTerms(), says: w.chance(500_000)}
	c.links, c.known, c.admissions = make([]link, len(w.nodes)), make([]int, len(w.nodes)), make([]admission, len(w.nodes))
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
func (w *world) foreignTerms() admit.Terms {
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

// strange looks for a try of a process of another group that goes on with a store that it must not
// use.
func (t *try) strange() {
	step := t.Step
	w := t.c.w
	if t.c.terms == w.terms || step == admit.StepLook {
		return
	}
	switch {
	case step == admit.StepMark, step == admit.StepEnd && t.Err == nil && t.Absence.Cause == 0:
		w.violate("admission", fmt.Sprintf("a client with the terms %v has node %d admitted, or uses it", t.c.terms, t.node))
	case step != admit.StepEnd && t.recorded:
		w.violate("admission", fmt.Sprintf("a client with the terms %v goes on with node %d, which has %v recorded",
			t.c.terms, t.node, w.terms))
	}
}
