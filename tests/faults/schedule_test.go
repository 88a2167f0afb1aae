//go:build linux

package main

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func fullSetup(seconds int) setup {
	return setup{seconds: seconds, kinds: kinds, nodes: 5, ttl: groupTTL}
}

func TestPairs(t *testing.T) {
	for n := 1; n <= 9; n++ {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(i))
		}
		pairs := pairsOf(names)
		seen := make(map[string]bool)
		for _, pair := range pairs {
			seen[pairKey(pair)] = true
		}
		if want := max(1, n*(n-1)/2); len(pairs) != want || len(seen) != want {
			t.Errorf("of %d names: %d pairs, %d different, want %d", n, len(pairs), len(seen), want)
		}
		round := make(map[string]bool)
		for _, pair := range pairs[:n/2] {
			for _, name := range pair {
				round[name] = true
			}
		}
		if n > 1 && len(round) != n/2*2 {
			t.Errorf("the first %d pairs of %d names have %d of them", n/2, n, len(round))
		}
	}
}

// A campaign deals each pair to some slot, wherever its seeds begin.
func TestPlansCoverAllPairs(t *testing.T) {
	for _, first := range []uint64{0, 1, 12345, 1<<64 - 200} {
		c := campaign{job: job{setup: fullSetup(30), seed: first}, histories: 100}
		missing := make(map[string]bool)
		for _, pair := range pairsOf(names(kinds)) {
			missing[pairKey(pair)] = true
		}
		for i := range c.histories {
			for _, slot := range newPlan(first+uint64(i), c.setup).slots {
				delete(missing, pairKey(names([]kind{slot.strikes[0].kind, slot.strikes[1].kind})))
			}
		}
		if len(missing) > 0 || !c.sum(nil).enough() {
			t.Errorf("from seed %d on: %d pairs are missing", first, len(missing))
		}
	}
	few := campaign{job: job{setup: fullSetup(30)}, histories: 2}
	if few.sum(nil).enough() {
		t.Error("two histories are said to be enough for all pairs")
	}
}

func TestPlanDependsOnTheSeed(t *testing.T) {
	text := func(p plan) (s string) {
		s = fmt.Sprint(p.seed, p.persistence)
		for _, slot := range p.slots {
			for _, t := range slot.strikes {
				s += fmt.Sprint(slot.length, t.kind.name, t.node, t.other, t.from, t.to, t.rngSource, ";")
			}
		}
		return s
	}
	s := fullSetup(30)
	seen := make(map[string]bool)
	for seed := range uint64(50) {
		one := text(newPlan(seed, s))
		if one != text(newPlan(seed, s)) {
			t.Errorf("seed %d has two plans", seed)
		}
		seen[one] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 seeds have %d plans", len(seen))
	}
}

// The two strikes of a slot overlap, last for as long as their kinds want, and no
// more than two servers are down.
func TestSlots(t *testing.T) {
	for _, seconds := range []int{1, 6, 30} {
		s := fullSetup(seconds)
		same, persistences := 0, make(map[persistence]bool)
		for seed := range uint64(300) {
			p := newPlan(seed, s)
			persistences[p.persistence] = true
			if len(p.slots) != s.slots() {
				t.Fatalf("%d slots, want %d", len(p.slots), s.slots())
			}
			for _, slot := range p.slots {
				a, b := slot.strikes[0], slot.strikes[1]
				if a.node == b.node {
					same++
				}
				for _, k := range []strike{a, b} {
					lasts, ttl := k.to-k.from, float64(groupTTL)
					least, most := time.Duration(k.kind.shortest*ttl), time.Duration(k.kind.longest*ttl)
					if k.from < 0 || lasts < least || lasts > most || most > 0 && lasts == 0 {
						t.Errorf("seed %d: %s lasts from %v to %v", seed, k.kind.name, k.from, k.to)
					}
					if k.node == k.other || k.node < 0 || k.node > 4 || k.other < 0 || k.other > 4 {
						t.Errorf("seed %d: servers %d and %d", seed, k.node, k.other)
					}
				}
				if b.from < a.from || b.from > max(a.to, a.from+time.Millisecond) {
					t.Errorf("seed %d: %s from %v to %v and %s from %v do not overlap", seed, a.kind.name, a.from, a.to, b.kind.name, b.from)
				}
			}
		}
		if all := 300 * s.slots(); same < all/8 || same > all/2 {
			t.Errorf("in %d of %d slots both strike the same server", same, all)
		}
		if len(persistences) != 3 {
			t.Errorf("persistences %v", persistences)
		}
	}
}

func TestOnly(t *testing.T) {
	s := fullSetup(30)
	for _, only := range [][]string{{}, {"kill"}, {"kill", "slow"}, {"kill", "kill"}} {
		s.only = only
		for _, slot := range newPlan(3, s).slots {
			var got []string
			for _, t := range slot.strikes {
				got = append(got, t.kind.name)
			}
			slices.Sort(got)
			if !slices.Equal(got, only) {
				t.Errorf("%v instead of %v", got, only)
			}
			if slot.length <= 0 {
				t.Error("a slot has no length")
			}
		}
	}
}
