package core_test

import (
	"testing"
	"time"
)

// TestRefutedVariants runs the same search over rules that look just as good
// and are wrong. Each must be refuted: that shows both why the shipped rule is
// what it is and that the search can find what it looks for. The last three
// were found by this search in earlier versions of the shipped code or of its
// design.
//
// One worker, so that the counterexample is the same in every run. Where the
// attempts begin in turn, it is only to get there sooner: a counterexample
// among fewer interleavings is still one.
func TestRefutedVariants(t *testing.T) {
	one, two := []uint8{1}, []uint8{1, 2}
	uneven := [][nNodes]uint8{{0, 0, 1}}
	variants := []struct {
		name  string
		model model
	}{
		{"the largest number granted is the token, without confirm",
			model{proposals: one, broken: broken{noConfirm: true}}},
		{"confirm does not check that the lease is still the holder's",
			model{proposals: one, broken: broken{confirmAnyway: true}}},
		{"confirm accepts though the register is past the token",
			model{proposals: two, registers: uneven, broken: broken{confirmOutrun: true}}},
		{"an empty node votes before its registers were rebuilt",
			model{proposals: one, losses: 1, broken: broken{votesEmpty: true}}},
		{"an empty node is rebuilt before every older attempt has run out",
			model{proposals: one, losses: 1, broken: broken{rebuiltEarly: true}}},
		{"a force release moves each register by one only",
			model{attempts: 1, proposals: one, rounds: 1, force: true, broken: broken{noFloor: true}}},
		{"a name that is reserved for a waiter is granted with the register as it is",
			model{proposals: one, reserves: true, broken: broken{grantsReserved: true}}},
		{"a confirm takes a name that is reserved for its own",
			model{proposals: one, reserves: true, broken: broken{confirmsReserved: true}}},
		{"an extension takes a name that is reserved for its own",
			model{proposals: one, rounds: 1, reserves: true, inTurn: true, broken: broken{extendsReserved: true}}},
		{"an extension counts every node where the lease is the holder's",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{extendsByLease: true}}},
		{"a lease that is created again has no origin",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{originZero: true}}},
		{"it has what its holder was granted there at first",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{originGranted: true}}},
		{"it has its holder's token",
			model{proposals: two, rounds: 1, inTurn: true, broken: broken{originToken: true}}},
		{"a mark that is wanted is raised without asking",
			model{proposals: one, rounds: 2, wants: two, inTurn: true, broken: broken{raisesUnasked: true}}},
		{"a mark that is wanted is raised by fewer than a quorum",
			model{proposals: one, rounds: 2, wants: two, inTurn: true, broken: broken{raisesByFew: true}}},
		{"a force release asks each node once, with one more than the largest register",
			model{attempts: 1, proposals: one, registers: uneven, rounds: 2, force: true, broken: broken{onePass: true}}},
	}
	for _, v := range variants {
		if !campaign && v.model.rounds > 1 {
			t.Logf("REDUCED: not here, it takes too long: %s", v.name)
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			r := search(&v.model, 1, time.Time{})
			if r.Violation == "" {
				t.Fatalf("not refuted: %v", r)
			}
			t.Logf("refuted after %d states, %.1fs:\n%s", r.States, r.Elapsed.Seconds(), r.steps(&v.model))
			few := v.model
			few.grouped = true
			if r := survey(&few, 1, time.Time{}); r.Violation == "" {
				t.Errorf("not refuted by a search that is grouped: %v", r)
			}
		})
	}
}
