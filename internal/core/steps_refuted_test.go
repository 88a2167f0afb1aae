package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRefutedBySteps has the proved models refute broken variants by the step that is wrong, as
// soon as it is taken: before a promise is broken.
func TestRefutedBySteps(t *testing.T) {
	one, two := []uint8{1}, []uint8{1, 2}
	uneven := [][nNodes]uint8{{0, 0, 1}}
	var table strings.Builder
	for _, v := range []struct {
		name  string
		model model
	}{
		{"the largest number granted is the token, without confirm", model{broken: broken{noConfirm: true}}},
		{"confirm does not check that the lease is still the holder's", model{broken: broken{confirmAnyway: true}}},
		{"confirm accepts though the register is past the token",
			model{proposals: two, registers: uneven, broken: broken{confirmOutrun: true}}},
		{"an empty node votes before its registers were rebuilt", model{losses: 1, broken: broken{votesEmpty: true}}},
		{"an empty node is rebuilt before every older attempt has run out",
			model{losses: 1, broken: broken{rebuiltEarly: true}}},
		{"a force release moves each register by one only",
			model{attempts: 1, rounds: 1, force: true, broken: broken{noFloor: true}}},
		{"a force release asks each node once, with one more than the largest register",
			model{attempts: 1, registers: uneven, rounds: 2, force: true, broken: broken{onePass: true}}},
		{"a name that is reserved for a waiter is granted with the register as it is",
			model{reserves: true, broken: broken{grantsReserved: true}}},
		{"a confirm takes a name that is reserved for its own",
			model{reserves: true, broken: broken{confirmsReserved: true}}},
		{"an extension takes a name that is reserved for its own",
			model{rounds: 1, reserves: true, inTurn: true, broken: broken{extendsReserved: true}}},
		{"an extension counts every node where the lease is the holder's",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{extendsByLease: true}}},
		{"a lease that is created again has no origin",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{originZero: true}}},
		{"it has what its holder was granted there at first",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{originGranted: true}}},
		{"it has its holder's token", model{proposals: two, rounds: 1, inTurn: true, broken: broken{originToken: true}}},
		{"a mark that is wanted is raised without asking",
			model{rounds: 2, wants: two, inTurn: true, broken: broken{raisesUnasked: true}}},
		{"a mark that is wanted is raised by fewer than a quorum",
			model{rounds: 2, wants: two, inTurn: true, broken: broken{raisesByFew: true}}},
		{"a node that does not have the lease raises the mark",
			model{rounds: 2, wants: two, inTurn: true, broken: broken{raisesByLost: true}}},
		{"leases that began with what the mark is raised to do",
			model{rounds: 2, wants: two, inTurn: true, broken: broken{raisesByNew: true}}},
		{"who adopts a lock holds it at once",
			model{rounds: 2, exports: true, inTurn: true, broken: broken{adoptsAtOnce: true}}},
		{"no registers are raised before a lock is exported",
			model{rounds: 2, exports: true, inTurn: true, broken: broken{exportsUnraised: true}}},
		{"what goes with it is the mark after they were raised",
			model{rounds: 2, exports: true, inTurn: true, broken: broken{exportsRaised: true}}},
		{"the first who shares a name gets the register as it is", model{shares: true, broken: broken{sharesUnmoved: true}}},
		{"what was confirmed is not promised to those who come",
			model{registers: uneven, shares: true, reserves: true, broken: broken{confirmsShared: true}}},
		{"a node gives the name with its register as it is", model{gives: 1, broken: broken{givesUnmoved: true}}},
		{"a waiter holds with the largest of different numbers", model{gives: 1, broken: broken{takesLargest: true}}},
		{"a waiter holds by fewer than a quorum", model{gives: 1, broken: broken{takesByFew: true}}},
		{"what was given counts when a node has lost its memory since",
			model{losses: 1, gives: 1, broken: broken{takesStale: true}}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if v.model.proposals == nil {
				v.model.proposals = one
			}
			v.model.tied = true
			r := search(&v.model, 1, time.Now().Add(time.Minute))
			if r.Violation == "" {
				t.Fatalf("not refuted: %v", r)
			}
			why, _, _ := strings.Cut(r.Violation, "\n")
			if why == r.Violation {
				t.Errorf("not by a step: %s", why)
			}
			fmt.Fprintf(&table, "| %s | %s | %d |\n", v.name, why, len(r.Path))
			t.Logf("refuted after %d states, %.1fs:\n%s", r.States, r.Elapsed.Seconds(), r.steps(&v.model))
		})
	}
	t.Logf("\n| what is broken | the step | moves |\n|---|---|---|\n%s", table.String())
}
