package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
)

// strayLease is a run in which a client goes on sending extends to a store that was replaced by an
// older one. The client still takes it for what the store was. The lock was exported before, has
// expired, and another client has had it since. Then the store is admitted, and the lock adopted.
// The extends arrive until the store votes. The loss is noted so much later than it happens. It
// returns what the checks say, and whether such a request was carried out.
func strayLease(t *testing.T, r rules, notedAfter time.Duration, change func(n *server)) (violations []Violation,
	strays int) {
	const ttl = time.Second
	s := script{nodes: 3, clients: 3, ttl: ttl, timeout: 200 * time.Millisecond, hold: time.Hour}
	w := s.world(false, r)
	exporter, other, adopter := w.clients[0], w.clients[1], w.clients[2]
	lost := w.nodes[2]
	change(lost)
	identity := lost.identity
	var backup memory
	var text shell.Exported
	var l, adopted *lock
	ended := false

	exporter.at(10*time.Millisecond, func() {
		exporter.acquire(0, false, false, func(held *lock) { l = held })
	})
	w.at(100*time.Millisecond, func() {
		backup = lost.memory.clone()
		exporter.links[1].blocked[toNode] = ever // so that one node does not hear of what follows
		mark := l.a.shell.Lock().OfferExport()
		l.a.shell.Lock().Extend(extended(func(f shell.Failure) {
			exporter.spawn(func() {
				l.released = true
				if text, f = l.a.shell.Lock().Export(mark); f.Failed() {
					t.Error("the lock is not exported")
				}
			})
		}))
	})
	w.at(1300*time.Millisecond, func() {
		other.links[1].blocked[toNode] = ever
		other.acquire(0, false, false, func(held *lock) {
			if held == nil {
				t.Error("the lock does not expire")
				return
			}
			held.release(func() {})
		})
	})
	var try, extend func()
	w.at(1500*time.Millisecond, func() {
		other.links[1].blocked[toNode] = 0
		lost.become(backup, node.Replaced)
		extend()
		w.after(notedAfter, try)
	})
	extend = func() {
		lost.serve(node.Request{Op: node.Extend, Name: w.names[0], Holder: l.holder, TTL: ttl, Token: text.Mark + 1},
			identity)
		if !lost.votes() {
			w.after(20*time.Millisecond, extend)
		}
	}
	try = func() {
		other.admit(2, func(votes bool) {
			if !votes {
				w.after(50*time.Millisecond, try)
				return
			}
			w.after(50*time.Millisecond, func() {
				adopter.adopt(l, &text, func(held *lock) { adopted, ended = held, true })
			})
		})
	}
	for w.now < 20*time.Second && !ended && w.step() {
	}
	if !ended {
		t.Error("the store is not admitted")
	}
	if adopted == nil && len(w.result.Violations) > 0 {
		t.Errorf("%v, without an adoption", w.result.Violations)
	}
	return w.result.Violations, w.result.Faults[stray].All
}

// A lease that was made on a store that is out must not survive its admission: it counts by the
// register of before. What keeps it from that is that the first client that notices the loss
// removes the mark, and that the quarantine counts from then. Seeds would have to be many to find
// that.
func TestStrayLeasesEndBeforeTheAdmission(t *testing.T) {
	quarantine := admit.Quarantine(time.Second)
	kept := func(*server) {}
	for name, c := range map[string]struct {
		noted  time.Duration
		broken func(r *rules)
		change func(n *server)
		want   string
	}{
		"as it is":   {0, all(), kept, ""},
		"noted late": {quarantine - 100*time.Millisecond, all(), kept, ""},
		"a note removes all leases": {quarantine - 100*time.Millisecond, all(),
			func(n *server) { n.kind.clears = true }, ""},
		"the mark of before stays": {0, markStays, kept, "extension"},
		"counted from the loss":    {quarantine - 100*time.Millisecond, countedFromTheLoss, kept, "extension"},
		"counted from it, leases removed": {quarantine - 100*time.Millisecond, countedFromTheLoss,
			func(n *server) { n.kind.clears = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := shipped()
			c.broken(&r)
			violations, strays := strayLease(t, r, c.noted, c.change)
			if strays == 0 {
				t.Error("no request was carried out on the store that is out")
			}
			if !finds(violations, c.want) {
				t.Errorf("%v; want one of %q", violations, c.want)
			}
		})
	}
}

// markStays has a note count without removing the mark.
var markStays = all(func(r *rules) {
	r.note = func(n *server, f admit.Facts) bool {
		if n.noted.identity != n.identity {
			n.noted = note{n.identity, n.local()}
		}
		return true
	}
}, finding(func(t *try, f *admit.Facts) {
	n := t.c.nodes[t.node]
	if f.Marked = f.Votes; !f.Marked && n.noted.identity == n.identity {
		f.Counted, f.Out = true, n.local()-n.noted.since
	}
}))

// countedFromTheLoss has the quarantine begin before the mark is removed.
var countedFromTheLoss = finding(func(t *try, f *admit.Facts) {
	n := t.c.nodes[t.node]
	if f.Counted {
		f.Out = n.local() - n.lost
	}
})

// behindAMajority is a run in which a token is fixed at nodes 0 and 2, and node 2 loses its memory.
// Of two clients that do not reach node 0 one has node 2 admitted, if it can. Then the other client
// tries to acquire the lock. Tokens rest on the registers, since the clocks of these two are not
// set. It returns whether node 2 votes, and what the checks say.
func behindAMajority(r rules, lost func(w *world)) (votes bool, violations []Violation) {
	s := script{nodes: 3, clients: 3, ttl: time.Second, timeout: 200 * time.Millisecond, hold: time.Hour}
	w := s.world(false, r)
	holder, admitter, other := w.clients[0], w.clients[1], w.clients[2]
	admitter.wall, other.wall = -ever, -ever
	holder.links[1].blocked[toNode] = ever
	holder.at(10*time.Millisecond, func() {
		holder.acquire(0, false, false, func(l *lock) { l.release(func() {}) })
	})
	w.at(100*time.Millisecond, func() {
		w.nodes[2].crash(emptied)
		w.nodes[2].restart()
		lost(w)
	})
	w.at(1500*time.Millisecond, func() { admitter.admit(2, func(bool) {}) })
	w.at(2500*time.Millisecond, func() {
		votes = w.nodes[2].votes()
		other.links[0].blocked[toNode] = ever
		other.acquire(0, false, false, func(*lock) {})
	})
	for w.now < 3*time.Second && w.step() {
	}
	return votes, w.result.Violations
}

// A client that admits a store is killed when it has done only the first of two steps. These are to
// raise the registers, and to set the mark. With the mark alone the store would promise what was
// promised before.
func TestTheMarkComesAfterTheRegisters(t *testing.T) {
	for name, c := range map[string]struct {
		first func(t *try)
		votes bool
		want  string
	}{
		"the registers first": {func(t *try) { t.raise(func(error) {}) }, false, ""},
		"the mark first":      {func(t *try) { t.mark(func(bool, error) {}) }, true, "tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			r := shipped()
			r.raise = func(t *try, _ func(error)) { c.first(t) }
			votes, violations := behindAMajority(r, func(*world) {})
			if votes != c.votes || !finds(violations, c.want) {
				t.Errorf("the store votes: %t, %v; want one of %q", votes, violations, c.want)
			}
		})
	}
}

// A store that was started again, and has lost nothing, has its registers before a client has it
// vote again. If it said that it has not, two of three would seem to have lost their memory, and
// the third would not be waited for.
func TestAStoreThatHasKeptAllIsNotTakenForLost(t *testing.T) {
	for name, c := range map[string]struct {
		complete func(n *server) bool
		votes    bool
		want     []string
	}{
		"as it is":                     {complete, false, []string{""}},
		"only a store that votes does": {(*server).votes, true, []string{"admission", "tokens"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := shipped()
			r.complete = c.complete
			votes, violations := behindAMajority(r, func(w *world) {
				w.founded = true
				w.clients[1].links[0].blocked[toNode] = ever
				w.nodes[1].kind.renames = true
				w.nodes[1].crash(crashed)
				w.nodes[1].restart()
			})
			for _, want := range c.want {
				if votes != c.votes || !finds(violations, want) {
					t.Errorf("the store votes: %t, %v; want one of %q", votes, violations, want)
				}
			}
		})
	}
}

// finds reports whether a check has found something, or, if it is none, whether none has.
func finds(violations []Violation, check string) bool {
	if check == "" {
		return len(violations) == 0
	}
	return slices.ContainsFunc(violations, func(v Violation) bool { return v.Check == check })
}
