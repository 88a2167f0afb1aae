//go:build linux

package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// plan is which faults strike in a history, and when. It depends on the seed and
// the setup only.
type plan struct {
	seed        uint64
	persistence persistence
	slots       []slot
}

// slot is a part of a history in which two kinds of fault overlap, mostly on two
// servers. At its end both are healed.
type slot struct {
	length  time.Duration
	strikes []strike // one or two, the earlier one first
}

// strike is one fault. Its times count from the beginning of its slot.
type strike struct {
	kind      kind
	node      int // from 0
	other     int // if the kind cannot strike there
	from, to  time.Duration
	rngSource uint64 // of the numbers that the kind draws
}

// setup is what all histories of a campaign have in common.
type setup struct {
	seconds int
	kinds   []kind
	only    []string // this pair, or this kind alone, in all slots; nil for all pairs
	nodes   int
	ttl     time.Duration
}

// slotLength is about how long a slot is. The kinds last for a few TTLs.
const slotLength = 4 * time.Second

// slots returns how many there are in a history.
func (s setup) slots() int {
	return max(1, int((time.Duration(s.seconds)*time.Second+slotLength/2)/slotLength))
}

// pairs returns what is dealt to the slots of a campaign, one after the other.
func (s setup) pairs() [][]string {
	if s.only != nil {
		return [][]string{s.only}
	}
	return pairsOf(names(s.kinds))
}

func names(kinds []kind) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// pairsOf returns all pairs of different names, in rounds in which each name
// comes up once (the circle method of tournaments): so a few slots in a row
// try all kinds, and all of them try all pairs. An only name is alone.
func pairsOf(names []string) (pairs [][]string) {
	if len(names) == 1 {
		return [][]string{names}
	}
	circle := slices.Clone(names)
	if len(circle)%2 == 1 {
		circle = append(circle, "") // who meets it sits out
	}
	n := len(circle)
	for range n - 1 {
		for i := range n / 2 {
			if a, b := circle[i], circle[n-1-i]; a != "" && b != "" {
				pairs = append(pairs, []string{a, b})
			}
		}
		// The first stays where it is, the others move on by one.
		circle = append([]string{circle[0], circle[n-1]}, circle[1:n-1]...)
	}
	return pairs
}

// newPlan deals the pairs to the slots by the seed: the histories of
// consecutive seeds go on where the one before ended.
func newPlan(seed uint64, s setup) plan {
	rng := rand.New(rand.NewPCG(seed, 0x706c616e))
	p := plan{seed: seed}
	p.persistence = []persistence{always, everysec, off}[rng.IntN(3)]
	pairs, slots := s.pairs(), s.slots()
	first := (seed % uint64(len(pairs))) * uint64(slots)
	length := time.Duration(s.seconds) * time.Second / time.Duration(slots)
	for i := range slots {
		pair := pairs[(first+uint64(i))%uint64(len(pairs))]
		p.slots = append(p.slots, newSlot(rng, length, pair, s))
	}
	return p
}

func newSlot(rng *rand.Rand, length time.Duration, pair []string, s setup) slot {
	l := slot{length: length}
	if len(pair) == 0 {
		return l
	}
	nodes := rng.Perm(s.nodes)
	if rng.IntN(4) == 0 {
		nodes = slices.Insert(nodes, 0, nodes[0]) // both on the same server
	}
	for i, name := range pair {
		k := s.kinds[slices.IndexFunc(s.kinds, func(k kind) bool { return k.name == name })]
		l.strikes = append(l.strikes, strike{kind: k, node: nodes[i%len(nodes)], other: nodes[(i+2)%len(nodes)], to: lasting(rng, k, length, s.ttl), rngSource: rng.Uint64()})
	}
	if rng.IntN(2) == 0 {
		slices.Reverse(l.strikes)
	}
	// One that lasts comes first, so that the other one can strike in its time.
	slices.SortStableFunc(l.strikes, func(a, b strike) int {
		switch {
		case a.to > 0 && b.to == 0:
			return -1
		case a.to == 0 && b.to > 0:
			return 1
		}
		return 0
	})
	start := time.Duration(rng.Int64N(int64(length) / 8))
	within := max(l.strikes[0].to*9/10, time.Millisecond)
	for i := range l.strikes {
		t := &l.strikes[i]
		t.from, t.to = start, start+t.to
		start += time.Duration(rng.Int64N(int64(within)))
	}
	return l
}

// lasting draws for how long a fault lasts, 0 for one that is over at once. In
// histories of a few seconds it is not given the whole of its range.
func lasting(rng *rand.Rand, k kind, length, ttl time.Duration) time.Duration {
	if k.longest == 0 {
		return 0
	}
	shortest := max(time.Duration(k.shortest*float64(ttl)), time.Millisecond)
	longest := time.Duration(k.longest * float64(ttl))
	if length < slotLength*9/10 {
		longest = min(longest, length/2)
	}
	return logUniform(rng, shortest, max(longest, shortest))
}
