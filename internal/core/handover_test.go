package core_test

import (
	"os"
	"testing"
	"time"
)

// TestEveryInterleavingHandover is TestEveryInterleaving where a process may export its lock, and
// another one adopt it, at any time after that or never. No adoption succeeds, and no extension
// after it, if at its start one of these is so. A holder with a larger token had had the lock. An
// operator had released it by force. At some time since the export, its lease had been gone at
// every node.
func TestEveryInterleavingHandover(t *testing.T) {
	one, uneven := []uint8{1}, [][nNodes]uint8{{0, 0, 1}}
	searches := []exploration{
		{"in turn", model{proposals: one, rounds: 2, exports: true, inTurn: true, reserves: true}, 6_600_000},
		{"a forced release", model{attempts: 1, proposals: one, bumps: 1, rounds: 2, exports: true, force: true,
			reserves: true}, 2_100_000},
		{"nobody else is there", model{attempts: 1, proposals: one, bumps: 2, losses: 2, rounds: 3, exports: true,
			reserves: true}, 3_800_000},
	}
	if os.Getenv("SEARCH_HANDOVER") != "" { // make search-handover
		searches = []exploration{
			{"registers differ, in turn", model{proposals: one, registers: uneven, rounds: 2, exports: true, inTurn: true,
				reserves: true}, 1},
			{"loss of memory on the way, in turn",
				model{proposals: one, rounds: 2, losses: 1, exports: true, inTurn: true, reserves: true}, 1},
			{"names are shared, in turn", model{proposals: one, rounds: 2, exports: true, inTurn: true, reserves: true,
				shares: true}, 1},
		}
	}
	if !campaign {
		t.Log("REDUCED: a forced release only, and no other name")
		searches = searches[1:2]
		searches[0].model.bumps, searches[0].atLeast = 0, 212_000
	}
	exploreAll(t, searches)
}

// TestRefutedHandovers runs the same search over handovers that are wrong.
func TestRefutedHandovers(t *testing.T) {
	one := []uint8{1}
	for _, v := range []struct {
		name  string
		model model
	}{
		{"who adopts a lock holds it at once", model{broken: broken{adoptsAtOnce: true}}},
		{"who adopts a lock raises its mark before its extension is carried", model{broken: broken{adopterRaises: true}}},
		{"who exports a lock goes on extending it", model{broken: broken{exporterGoesOn: true}}},
		{"no registers are raised before a lock is exported", model{broken: broken{exportsUnraised: true}}},
		{"what goes with it is the mark after they were raised", model{broken: broken{exportsRaised: true}}},
	} {
		v.model.proposals, v.model.rounds, v.model.exports, v.model.inTurn = one, 2, true, true
		if !campaign && (v.model.broken.adopterRaises || v.model.broken.exporterGoesOn) {
			t.Logf("REDUCED: not here, it takes too long: %s", v.name)
			continue
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
