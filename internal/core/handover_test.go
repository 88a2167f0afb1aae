package core_test

import (
	"os"
	"testing"
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
