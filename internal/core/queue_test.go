package core_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node/rule"
)

// What clients pass to Retry.Refused: they look again as early or as late as they
// may.
var early, late = [maxClients]float64{}, [maxClients]float64{0.999, 0.999, 0.999, 0.999}

// aWhile is how long Retry lets the first notification wait that is not one of a quorum.
const aWhile = rule.ReservationTTL / 16

// TestEveryQueue visits every state that a few clients can reach who want the
// same lock while nothing fails. In every run
//   - all of them are served: no run ends before, and none goes on for ever;
//   - if all wait in all queues when the lock is released, they are served in the
//     order of their stamps;
//   - the lock is taken at once when it has been released. Where messages have crossed so that too
//     few nodes notify the same waiter, it is taken after aWhile;
//   - if no timer goes off during a hold, no client makes more than two attempts: one that is
//     refused, and one when it is notified.
func TestEveryQueue(t *testing.T) {
	for _, s := range []struct {
		name     string
		model    queueModel
		attempts int
		vacant   time.Duration
		atLeast  int // states: a search that suddenly visits far fewer is broken itself
		long     bool
	}{
		{"two come", queueModel{clients: 2, random: early}, 2, 0, 40_000, false},
		{"two come, a long hold", queueModel{clients: 2, random: late, maxHold: 4 * time.Second}, 4, aWhile, 70_000, false},
		{"two come, a node is down", queueModel{clients: 2, down: 1, random: late}, 2, aWhile, 6_000, false},
		{"two come at once, four nodes", queueModel{clients: 2, nodes: 4, atOnce: true}, 2, aWhile, 60_000, true},
		{"one holds, one waits, one comes", queueModel{clients: 3, prepared: 2, random: early}, 2, 0, 45_000, true},
		{"one holds, two wait", queueModel{clients: 3, prepared: 3, random: early}, 2, 0, 2_000, false},
		{"one holds, two wait, notifications travel apart", queueModel{clients: 3, prepared: 3, apart: true}, 2, 0, 3_000,
			false},
		{"one holds, two wait, a long hold", queueModel{clients: 3, prepared: 3, maxHold: 4 * time.Second}, 9, aWhile,
			150_000, true},
		{"one holds, three wait", queueModel{clients: 4, prepared: 4, random: late}, 2, 0, 30_000, true},
	} {
		if !campaign && s.long {
			t.Logf("REDUCED: not here, it takes too long: %s", s.name)
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			r := searchQueue(&s.model)
			t.Log(r)
			if r.Violation != "" {
				t.Fatalf("counterexample:\n%s", r.steps(&s.model))
			}
			if r.Attempts > s.attempts {
				t.Errorf("a client made %d attempts, expected %d at most", r.Attempts, s.attempts)
			}
			if r.Vacant > s.vacant {
				t.Errorf("nobody held for %v while somebody waited, expected %v at most", r.Vacant, s.vacant)
			}
			if r.States < s.atLeast {
				t.Errorf("only %d states, expected %d or more: does the search still see everything?", r.States, s.atLeast)
			}
		})
	}
}

// TestQueuesAtRandom takes random paths where there are too many states to visit
// all. The seeds are the same in every run; a failure prints the one that replays
// it. Where everything may overtake everything, an attempt may meet the lease of
// an earlier one of the same waiter, and only the backstop mends that.
func TestQueuesAtRandom(t *testing.T) {
	walks := 30_000
	if !campaign {
		walks = 2_000
		t.Logf("REDUCED: %d walks each", walks)
	}
	const backstop = core.Backstop * 5 / 4
	for _, s := range []struct {
		name   string
		model  queueModel
		vacant time.Duration
	}{
		{"three come", queueModel{clients: 3}, 4 * aWhile},
		{"four come, long holds", queueModel{clients: 4, maxHold: 3 * time.Second}, 4 * aWhile},
		{"four come, long holds, notifications travel apart", queueModel{clients: 4, apart: true, maxHold: 3 * time.Second},
			4 * aWhile},
		{"three come, a node is down", queueModel{clients: 3, down: 1}, 4 * aWhile},
		{"four come, four nodes", queueModel{clients: 4, nodes: 4}, 8 * aWhile},
		{"four come, two of five nodes are down", queueModel{clients: 4, nodes: 5, down: 2}, 8 * aWhile},
		{"four come, messages in any order", queueModel{clients: 4, loose: true, apart: true}, backstop},
		{"three come, a node is down, messages in any order", queueModel{clients: 3, down: 1, loose: true}, backstop},
	} {
		t.Run(s.name, func(t *testing.T) {
			var most queueResult
			for seed := range uint64(walks) {
				r := walkQueue(&s.model, seed)
				if r.Violation != "" {
					t.Fatalf("seed %d:\n%s", seed, r.steps(&s.model))
				}
				if r.Vacant > s.vacant {
					t.Fatalf("seed %d: nobody held for %v while somebody waited, expected %v at most:\n%s",
						seed, r.Vacant, s.vacant, r.steps(&s.model))
				}
				most.Attempts, most.Vacant = max(most.Attempts, r.Attempts), max(most.Vacant, r.Vacant)
			}
			t.Logf("%d walks: at most %d attempts, the lock is free for %v at most", walks, most.Attempts, most.Vacant)
		})
	}
}

// walkQueue takes one random path to its end. It sets the model's random figures.
func walkQueue(m *queueModel, seed uint64) (r queueResult) {
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range m.random {
		m.random[i] = random.Float64()
	}
	s := m.initial()
	var moves []queueMove
	vacant := time.Duration(0)
	for r.Violation == "" {
		moves = m.moves(&s, moves[:0])
		r.Violation = m.stuck(&s, moves)
		if r.Violation != "" || len(moves) == 0 {
			for i := range m.clients {
				r.Attempts = max(r.Attempts, int(s.clients[i].attempt))
			}
			return r
		}
		mv := moves[random.IntN(len(moves))]
		r.Path = append(r.Path, mv)
		before, held := s.now, s.isHeld()
		r.Violation = m.apply(&s, mv, nil)
		if held {
			vacant = 0
		} else {
			vacant += s.now - before
		}
		r.Vacant = max(r.Vacant, vacant)
	}
	return r
}

// TestRefutedQueues searches ways of waiting that look just as good and are wrong.
func TestRefutedQueues(t *testing.T) {
	for _, v := range []struct {
		name  string
		model queueModel
		want  string        // the violation
		idle  time.Duration // or that no client holds for longer than this
	}{
		{"a release notifies nobody, and nobody tries by itself",
			queueModel{clients: 2, broken: brokenQueue{silent: true, noTimers: true}}, "nothing will happen", 0},
		{"a release notifies nobody",
			queueModel{clients: 2, broken: brokenQueue{silent: true}}, "", rule.ReservationTTL},
		{"a queue is in the order of arrival",
			queueModel{clients: 3, prepared: 1, broken: brokenQueue{byArrival: true}}, "is served before", 0},
		{"an attempt that fails leaves the queues where it was granted",
			queueModel{clients: 3, down: 1, broken: brokenQueue{noRejoin: true}}, "again and again", 0},
		{"an attempt that fails notifies itself, and tries at every notification",
			queueModel{clients: 3, down: 1, broken: brokenQueue{notifiesSelf: true, impatient: true}}, "again and again", 0},
		{"a waiter tries at every notification",
			queueModel{clients: 3, prepared: 2, broken: brokenQueue{impatient: true}}, "", 2 * aWhile},
		{"a client that has the lock stays in the queue of a node that it was not needed at",
			queueModel{clients: 3, broken: brokenQueue{lingers: true}}, "", rule.ReservationTTL},
	} {
		t.Run(v.name, func(t *testing.T) {
			for seed := range uint64(20_000) {
				r := walkQueue(&v.model, seed)
				switch {
				case v.want != "" && strings.Contains(r.Violation, v.want):
					t.Logf("refuted by seed %d:\n%s", seed, r.steps(&v.model))
					return
				case v.want == "" && r.Vacant > v.idle:
					t.Logf("refuted by seed %d: nobody holds for %v while somebody waits", seed, r.Vacant)
					return
				case r.Violation != "" && !strings.Contains(r.Violation, v.want):
					t.Fatalf("seed %d: not what was to be seen:\n%s", seed, r.steps(&v.model))
				}
			}
			t.Fatal("not refuted")
		})
	}
}

// The exhaustive search has to see these two as well. They are a run that ends, and one that goes
// on for ever, though perhaps with ever larger registers.
func TestRefutedQueuesExhaustively(t *testing.T) {
	for want, m := range map[string]queueModel{
		"nothing will happen": {clients: 2, broken: brokenQueue{silent: true, noTimers: true}},
		"again": {clients: 3, prepared: 1, down: 1,
			broken: brokenQueue{notifiesSelf: true, impatient: true}},
	} {
		if r := searchQueue(&m); !strings.Contains(r.Violation, want) {
			t.Errorf("not refuted by %q: %v, %s", want, r, r.steps(&m))
		}
	}
}
