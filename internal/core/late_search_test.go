package core_test

import (
	"testing"
	"time"
)

// TestLateAnswers is TestEveryInterleaving where answers to earlier extensions count, however late
// they come, and extensions that some nodes have refused go on. In every state, the validity is
// counted from the start of an extension. When that began, no holder with a larger token had had
// the lock, and no operator had released it by force.
func TestLateAnswers(t *testing.T) {
	one := []uint8{1}
	searches := []exploration{
		{"a forced release", model{attempts: 1, proposals: one, rounds: 2, force: true, late: true, goesOn: true}, 125_000},
		{"one extension each that goes on, in turn", model{proposals: one, rounds: 1, inTurn: true, late: true, goesOn: true},
			85_000},
		{"two extensions of the first, in turn", model{proposals: one, rounds: 2, first: true, inTurn: true, late: true},
			1_350_000},
	}
	if !campaign {
		t.Log("REDUCED: nobody else comes while an attempt extends twice")
		searches = searches[:2]
	}
	exploreAll(t, searches)
}

// TestRefutedLateAnswers refutes variants that count more. The last one does no harm as long as no
// lock is handed over: there is no example with two holders in the search. It is what the proof
// does not allow.
func TestRefutedLateAnswers(t *testing.T) {
	for _, v := range []struct {
		name  string
		model model
	}{
		{"a late answer counts for the latest extension", model{broken: broken{latesAsNew: true}}},
		{"a late answer counts for the latest extension, and somebody else has come",
			model{attempts: 2, first: true, inTurn: true, broken: broken{latesAsNew: true}}},
		{"a late answer counts though others share the name by now",
			model{downgrade: true, tied: true, broken: broken{latesForAll: true}}},
	} {
		v.model.proposals, v.model.rounds, v.model.late = []uint8{1}, 2, true
		if v.model.attempts == 0 {
			v.model.attempts, v.model.force = 1, true
		}
		t.Run(v.name, func(t *testing.T) {
			r := search(&v.model, 1, time.Time{})
			if r.Violation == "" {
				t.Fatalf("not refuted: %v", r)
			}
			t.Logf("refuted after %d states, %.1fs:\n%s", r.States, r.Elapsed.Seconds(), r.steps(&v.model))
		})
	}
}
