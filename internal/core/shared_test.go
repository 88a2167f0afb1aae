package core_test

import (
	"os"
	"testing"
)

// TestEveryInterleavingShared is TestEveryInterleaving with attempts that may want to share the
// name, or let others share it later. Tokens are unique but for those who share it; an acquisition
// that began after another one had finished has a larger token, or the same if both share; and no
// extension is carried after a holder with a larger token had had the name, unless both share it.
func TestEveryInterleavingShared(t *testing.T) {
	one, uneven, same := []uint8{1}, [][nNodes]uint8{{0, 0, 1}}, [][nNodes]uint8{{1, 1, 1}}
	searches := []exploration{
		{"one has just gone, in turn",
			model{proposals: one, registers: same, epoch: 1, reserves: true, shares: true, inTurn: true}, 23_000},
		{"one extension", model{proposals: one, rounds: 1, reserves: true, shares: true}, 2_400_000},
		{"let others share it, in turn",
			model{proposals: one, rounds: 1, reserves: true, shares: true, downgrade: true, inTurn: true}, 540_000},
		{"registers differ, in turn", model{proposals: one, registers: uneven, rounds: 1, reserves: true, shares: true,
			inTurn: true}, 1_800_000},
	}
	if os.Getenv("SEARCH_SHARED") != "" { // make search-shared
		searches = []exploration{
			{"one has just gone", model{proposals: one, registers: same, epoch: 1, reserves: true, shares: true}, 11_000_000},
			{"let others share it", model{proposals: one, rounds: 1, shares: true, downgrade: true}, 5_800_000},
			{"registers differ", model{proposals: one, registers: uneven, reserves: true, shares: true}, 9_600_000},
		}
	}
	if !campaign {
		t.Log("REDUCED: in turn only, and the registers are the same")
		searches = []exploration{searches[0], searches[2]}
	}
	exploreAll(t, searches)
}
