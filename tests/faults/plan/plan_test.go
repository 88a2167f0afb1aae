//go:build linux

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
)

func TestPairs(t *testing.T) {
	for n := 1; n <= 9; n++ {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint(i))
		}
		pairs := pairsOf(names)
		seen := make(map[string]bool)
		for _, pair := range pairs {
			seen[Key(pair)] = true
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
		missing := make(map[string]bool)
		for _, pair := range Full(30).Pairs() {
			missing[Key(pair)] = true
		}
		for i := range uint64(100) {
			for _, slot := range New(first+i, Full(30)).Slots {
				delete(missing, Key(slot.Pair()))
			}
		}
		if len(missing) > 0 {
			t.Errorf("from seed %d on: %d pairs are missing", first, len(missing))
		}
	}
}

func TestPlanDependsOnTheSeed(t *testing.T) {
	seen := make(map[string]bool)
	for seed := range uint64(50) {
		one := fmt.Sprint(New(seed, Full(30)))
		if one != fmt.Sprint(New(seed, Full(30))) {
			t.Errorf("seed %d has two plans", seed)
		}
		seen[one] = true
	}
	if len(seen) != 50 {
		t.Errorf("50 seeds have %d plans", len(seen))
	}
}

// The two faults of a slot overlap, last for as long as their kinds want, and no
// more than two servers are down.
func TestSlots(t *testing.T) {
	for _, seconds := range []int{1, 6, 30} {
		s := Full(seconds)
		same, persistences := 0, make(map[cluster.Persistence]bool)
		for seed := range uint64(300) {
			p := New(seed, s)
			persistences[p.Persistence] = true
			if len(p.Slots) != s.Slots() {
				t.Fatalf("%d slots, want %d", len(p.Slots), s.Slots())
			}
			for _, slot := range p.Slots {
				a, b := slot.Faults[0], slot.Faults[1]
				if a.Node == b.Node {
					same++
				}
				for _, k := range []Fault{a, b} {
					lasts, ttl := k.To-k.From, float64(cluster.TTL)
					least, most := time.Duration(k.Kind.Shortest*ttl), time.Duration(k.Kind.Longest*ttl)
					if k.From < 0 || lasts < least || lasts > most || most > 0 && lasts == 0 {
						t.Errorf("seed %d: %s lasts from %v to %v", seed, k.Kind.Name, k.From, k.To)
					}
					if k.Node == k.Other || k.Node < 0 || k.Node > 4 || k.Other < 0 || k.Other > 4 {
						t.Errorf("seed %d: servers %d and %d", seed, k.Node, k.Other)
					}
				}
				if b.From < a.From || b.From > max(a.To, a.From+time.Millisecond) {
					t.Errorf("seed %d: %s from %v to %v and %s from %v do not overlap", seed, a.Kind.Name, a.From, a.To, b.Kind.Name,
						b.From)
				}
			}
		}
		if all := 300 * s.Slots(); same < all/8 || same > all/2 {
			t.Errorf("in %d of %d slots both strike the same server", same, all)
		}
		if len(persistences) != 3 {
			t.Errorf("persistences %v", persistences)
		}
	}
}

func TestOnly(t *testing.T) {
	s := Full(30)
	for _, only := range [][]string{{}, {"kill"}, {"kill", "slow"}, {"kill", "kill"}} {
		s.Only = only
		for _, slot := range New(3, s).Slots {
			got := slices.Sorted(slices.Values(slot.Pair()))
			if !slices.Equal(got, only) {
				t.Errorf("%v instead of %v", got, only)
			}
			if slot.Length <= 0 {
				t.Error("a slot has no length")
			}
		}
	}
}

func TestRollingGoesRound(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		s := Full(30)
		s.Nodes = nodes
		s = Rolling(s)
		for seed := range uint64(20) {
			struck, next := make(map[string]bool), 0
			for i, slot := range New(seed, s).Slots {
				if len(slot.Faults) > (nodes-1)/2 {
					t.Fatalf("%d of %d servers go at a time", len(slot.Faults), nodes)
				}
				for _, f := range slot.Faults {
					if f.Node != next%nodes || !f.Kind.Goes {
						t.Errorf("seed %d, slot %d: %s on server %d of %d", seed, i, f.Kind.Name, f.Node, nodes)
					}
					next++
				}
				struck[Key(slot.Pair())] = true
			}
			if want := 4 * ((nodes - 1) / 2); len(struck) != want {
				t.Errorf("seed %d: %v, want %d", seed, struck, want)
			}
		}
	}
}
