package core_test

import (
	"slices"
	"testing"

	"github.com/fenlock/fenlock/internal/core"
)

// What an attempt does when it hears is not left out. It may ask one more node to raise its
// register, or act when a confirm times out after other answers.
func TestGroupedHears(t *testing.T) {
	const a = 0
	one := func(kind moveKind, node, arg int) []move { return []move{at(kind, a, node-1, arg)} }
	for _, c := range []struct {
		name  string
		model model
		path  []move
		then  func(s *state) bool
	}{
		{"one more node is asked to raise its register",
			model{rounds: 3, wants: []uint8{1}, inTurn: true},
			slices.Concat(one(begin, 1, 1), one(runAcquire, 1, 0), one(runAcquire, 2, 0), one(hearAcquire, 1, 0),
				one(hearAcquire, 2, 0), one(startExtend, 1, 1), one(runExtend, 1, 1), one(runExtend, 2, 1),
				one(hearExtend, 1, 0), one(hearExtend, 2, 0),
				one(startExtend, 1, 0), one(runExtend, 3, 2)),
			func(s *state) bool { return s.attempts[a].extends[2].raises != [maxRounds + 1]uint8{} }},
		{"confirms time out after a larger number was heard of",
			model{timeouts: true, registers: [][nNodes]uint8{{0, 1, 4}}},
			slices.Concat(one(begin, 1, 1), one(runAcquire, 1, 0), one(runAcquire, 2, 0), one(runAcquire, 3, 0),
				one(hearAcquire, 1, 0), one(hearAcquire, 2, 0)),
			func(s *state) bool {
				return s.attempts[a].core.Phase() == core.Confirming && s.attempts[a].core.Token() == 5
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &c.model
			m.attempts, m.proposals, m.grouped = 2, []uint8{1}, true
			s := m.initialStates()[0]
			var steps trace
			for i, mv := range c.path {
				if !slices.Contains(m.moves(&s, nil), mv) {
					t.Fatalf("step %d, %+v, is not possible after\n%s", i+1, mv, steps.until(""))
				}
				m.apply(&s, mv, &steps)
			}
			if c.then(&s) {
				t.Fatal("this is so before")
			}
			found := false
			g := grouped{m: m, visit: func(next *state) { found = found || c.then(next) }}
			if violation := g.expand(&s); violation != "" || !found {
				t.Errorf("it is not found, %q, after\n%s", violation, steps.until(""))
			}
		})
	}
}
