package core_test

import (
	"os"
	"testing"
)

// TestEveryInterleavingGiven is TestEveryInterleaving with attempts that may wait for what nodes
// give to them.
func TestEveryInterleavingGiven(t *testing.T) {
	one, two, uneven := []uint8{1}, []uint8{1, 2}, [][nNodes]uint8{{0, 0, 1}}
	searches := []exploration{
		{"given twice", model{proposals: one, gives: 2, reserves: true}, 730_000},
		{"one extension", model{proposals: one, gives: 1, rounds: 1, reserves: true}, 370_000},
		{"registers differ, in turn", model{proposals: one, registers: uneven, gives: 1, rounds: 1, inTurn: true,
			reserves: true}, 290_000},
		{"a loss of memory, in turn", model{proposals: one, gives: 1, losses: 1, inTurn: true, reserves: true}, 34_000},
		{"a forced release", model{attempts: 1, proposals: one, gives: 1, rounds: 1, force: true, reserves: true}, 5_600},
	}
	if os.Getenv("SEARCH_GIVEN") != "" { // make search-given
		searches = []exploration{
			{"registers differ", model{proposals: two, registers: uneven, gives: 1, rounds: 1, reserves: true}, 2_800_000},
			{"a forced release", model{attempts: 1, proposals: one, gives: 2, bumps: 1, rounds: 2, force: true, reserves: true},
				1_000_000},
			{"another name moves a register", model{proposals: two, gives: 1, bumps: 1, reserves: true}, 4_600_000},
			{"a loss of memory", model{proposals: one, gives: 1, losses: 1, reserves: true}, 6_300_000},
			{"a loss of memory and an extension, in turn",
				model{proposals: one, gives: 1, rounds: 1, losses: 1, inTurn: true, reserves: true}, 2_000_000},
		}
	}
	if !campaign {
		t.Log("REDUCED: nothing is given twice, and extensions in turn only")
		searches = searches[len(searches)-3:]
	}
	exploreAll(t, searches)
}

// TestGivenExclusion visits every state of a model in which leases do not vanish: see givenModel.
// In none of them do two waiters believe that they have the lock.
func TestGivenExclusion(t *testing.T) {
	once, uneven := [2]int{0, 1}, [nNodes]uint8{0, 2, 2}
	searches := []givenExploration{
		{"the second one asks", givenModel{retries: once, parts: true, extends: true}, 150_000},
		{"the first one asks", givenModel{retries: [2]int{1, 0}}, 20_700},
		{"a late release", givenModel{retries: once, releases: 2, forgets: true}, 120_000},
		{"a late acquire", givenModel{retries: once, acquires: 1, releases: 1}, 94_000},
		{"a late extend of the holder before", givenModel{retries: once, lateExtend: true, extends: true}, 210_000},
		{"somebody else has the name", givenModel{retries: once, registers: uneven, foreigners: 1, extends: true}, 130_000},
	}
	if os.Getenv("SEARCH_GIVEN") != "" { // make search-given
		searches = []givenExploration{
			{"what was given back is given again",
				givenModel{retries: [2]int{1, 1}, silent: true, releases: 1, registers: uneven, foreigners: 1}, 2_200_000},
			{"what is late of an attempt", givenModel{retries: once, acquires: 2, releases: 3, parts: true}, 6_700_000},
		}
	}
	if !campaign {
		t.Log("REDUCED: the first one asks, or its release is late")
		searches = searches[1:3]
	}
	for _, c := range searches {
		t.Run(c.name, func(t *testing.T) {
			states, path := c.model.search()
			t.Logf("%d states", states)
			if path != "" {
				t.Fatalf("counterexample:\n%s", path)
			}
			if states < c.atLeast {
				t.Errorf("only %d states, expected %d or more: does the search still see everything?", states, c.atLeast)
			}
		})
	}
}

type givenExploration struct {
	name    string
	model   givenModel
	atLeast int
}

// TestRefutedGivenExclusion runs the same search over rules that are wrong. The first one was that
// of an earlier version.
func TestRefutedGivenExclusion(t *testing.T) {
	once := [2]int{0, 1}
	for _, c := range []struct {
		name  string
		model givenModel
	}{
		{"a late release of an attempt takes back what was given to its waiter",
			givenModel{retries: once, releases: 2, broken: givenModelBroken{takesBackLate: true}}},
		{"who leaves a queue takes back what was given, though it has that",
			givenModel{retries: once, parts: true, broken: givenModelBroken{leavesAsNone: true}}},
		{"who gives something back takes its lock back",
			givenModel{retries: once, registers: [nNodes]uint8{0, 2, 2}, foreigners: 1, extends: true,
				broken: givenModelBroken{placedBack: true}}},
		{"what was given back counts",
			givenModel{retries: [2]int{1, 1}, silent: true, broken: givenModelBroken{backCounts: true}}},
		{"all that is given to a waiter has one holder",
			givenModel{retries: [2]int{1, 1}, silent: true, releases: 1, registers: [nNodes]uint8{0, 2, 2}, foreigners: 1,
				broken: givenModelBroken{oneHolder: true}}}, // no token is wrong by it
	} {
		if !campaign && c.model.broken.oneHolder {
			t.Logf("REDUCED: not here, it takes too long: %s", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			states, path := c.model.search()
			if path == "" {
				t.Fatalf("not refuted by %d states", states)
			}
			t.Logf("refuted after %d states:\n%s", states, path)
		})
	}
}
