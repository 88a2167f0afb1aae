//go:build linux

package plan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/draw"
	"github.com/fenlock/fenlock/tests/faults/kinds"
)

// Plan is which faults strike in a history, and when.
type Plan struct {
	Persistence cluster.Persistence
	Slots       []Slot
}

// Slot is a part of a history in which two kinds of fault overlap, mostly on two
// servers. At its end both are healed.
type Slot struct {
	Length time.Duration
	Faults []Fault // one or two, the earlier one first; none if none is wanted
}

// Fault is one fault. Its times count from the beginning of its slot.
type Fault struct {
	Kind     kinds.Kind
	Node     int // from 0
	Other    int // if the kind cannot strike there
	From, To time.Duration
	Seed     uint64 // of the numbers that the kind draws
}

// Pair returns the names of the kinds.
func (s Slot) Pair() (names []string) {
	for _, f := range s.Faults {
		names = append(names, f.Kind.Name)
	}
	return names
}

// Setup is what all histories of a campaign have in common.
type Setup struct {
	Seconds int
	Kinds   []kinds.Kind
	Only    []string // this pair, or this kind alone, in all slots; nil for all pairs
	Group   cluster.Group
	Nodes   int
	Rolling bool // one server after the other, or two at a time
	TTL     time.Duration
}

// Full is what a campaign tries: all kinds, on five servers.
func Full(seconds int) Setup { return FullOn(cluster.Groups[0], seconds) }

// FullOn is the same on servers of other engines.
func FullOn(g cluster.Group, seconds int) Setup {
	return Setup{Seconds: seconds, Kinds: kinds.On(g), Group: g, Nodes: 5, TTL: g.TTL()}
}

// Rolling is one fault after the other, each on the next server, as when servers are restarted or
// moved. Where a majority can do without, it is on the next two. What is held may not be lost by
// it.
func Rolling(s Setup) Setup {
	s.Rolling = true
	s.Kinds = slices.DeleteFunc(kinds.On(s.Group), func(k kinds.Kind) bool { return !k.Goes })
	return s
}

// slotLength is about how long a slot is. The kinds last for a few TTLs.
const slotLength = 4 * time.Second

// Slots returns how many there are in a history.
func (s Setup) Slots() int {
	return max(1, int((time.Duration(s.Seconds)*time.Second+slotLength/2)/slotLength))
}

// Pairs returns what is dealt to the slots of a campaign, one after the other.
func (s Setup) Pairs() [][]string {
	if s.Only != nil {
		return [][]string{s.Only}
	}
	if s.Rolling {
		var going [][]string
		for _, name := range kinds.Names(s.Kinds) {
			going = append(going, []string{name})
			if s.Nodes >= 5 {
				going = append(going, []string{name, name})
			}
		}
		return going
	}
	return pairsOf(kinds.Names(s.Kinds))
}

// pairsOf returns all pairs of different names, in rounds in which each name comes up once (the
// circle method of tournaments). So a few slots in a row try all kinds, and all of them try all
// pairs. An only name is alone.
func pairsOf(names []string) (pairs [][]string) {
	if len(names) == 1 {
		return [][]string{names}
	}
	circle := slices.Clone(names)
	if len(circle)%2 == 1 {
		circle = append(circle, "") // the name that meets it sits out
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

// Key is what a pair is called, in whichever order its names are.
func Key(pair []string) string {
	return strings.Join(slices.Sorted(slices.Values(pair)), " + ")
}

// New deals the pairs to the slots by the seed: the histories of consecutive seeds
// go on where the one before ended.
func New(seed uint64, s Setup) Plan {
	rng := rand.New(rand.NewPCG(seed, 0x706c616e))
	p := Plan{Persistence: []cluster.Persistence{cluster.Always, cluster.Everysec, cluster.Off}[rng.IntN(3)]}
	pairs, slots := s.Pairs(), s.Slots()
	first := (seed % uint64(len(pairs))) * uint64(slots)
	length := time.Duration(s.Seconds) * time.Second / time.Duration(slots)
	next := 0 // server, if they go one after the other
	for i := range slots {
		pair := pairs[(first+uint64(i))%uint64(len(pairs))]
		slot := newSlot(rng, length, pair, s)
		if s.Rolling {
			for j := range slot.Faults {
				slot.Faults[j].Node = s.suiting(slot.Faults[j].Kind, next%s.Nodes)
				next = slot.Faults[j].Node + 1
			}
		}
		p.Slots = append(p.Slots, slot)
	}
	return p
}

func newSlot(rng *rand.Rand, length time.Duration, pair []string, s Setup) Slot {
	l := Slot{Length: length}
	if len(pair) == 0 {
		return l
	}
	nodes := rng.Perm(s.Nodes)
	if rng.IntN(4) == 0 {
		nodes = slices.Insert(nodes, 0, nodes[0]) // both on the same server
	}
	for i, name := range pair {
		k := s.Kinds[kinds.Index(s.Kinds, name)]
		lasts, seed := lasting(rng, k, length, s.TTL), rng.Uint64()
		node, other := nodes[i%len(nodes)], nodes[(i+2)%len(nodes)]
		l.Faults = append(l.Faults, Fault{Kind: k, Node: s.suiting(k, node), Other: s.suiting(k, other), To: lasts,
			Seed: seed})
	}
	if rng.IntN(2) == 0 {
		slices.Reverse(l.Faults)
	}
	// A fault that lasts comes first, so that the other fault can strike in its time.
	if f := l.Faults; len(f) == 2 && f[0].To == 0 && f[1].To > 0 {
		slices.Reverse(f)
	}
	start := time.Duration(rng.Int64N(int64(length) / 8))
	within := max(l.Faults[0].To*9/10, time.Millisecond)
	for i := range l.Faults {
		f := &l.Faults[i]
		f.From, f.To = start, start+f.To
		start += time.Duration(rng.Int64N(int64(within)))
	}
	return l
}

// suiting returns a server, or the next one that a kind makes sense on.
func (s Setup) suiting(k kinds.Kind, node int) int {
	for i := range s.Nodes {
		if at := (node + i) % s.Nodes; k.Suits(s.Group.At(at)) {
			return at
		}
	}
	return node
}

// Forget reports whether a majority of the servers may have lost its registers in a slot.
func (s Setup) Forget(l Slot, p cluster.Persistence) bool {
	forgets := 0
	for _, f := range l.Faults {
		if !f.Kind.Nodeless && f.Kind.Costs(s.Group.At(f.Node), p) == cluster.Registers {
			forgets++
		}
	}
	return s.Nodes-forgets < s.Nodes/2+1
}

// Length is about how long the slots take.
func (p Plan) Length() (d time.Duration) {
	for _, s := range p.Slots {
		longest := s.Length
		for _, f := range s.Faults {
			longest = max(longest, f.To)
		}
		d += longest
	}
	return d
}

// lasting draws for how long a fault lasts, 0 for one that is over at once. In
// histories of a few seconds it is not given the whole of its range.
func lasting(rng *rand.Rand, k kinds.Kind, length, ttl time.Duration) time.Duration {
	if k.Longest == 0 {
		return 0
	}
	shortest := max(time.Duration(k.Shortest*float64(ttl)), time.Millisecond)
	longest := time.Duration(k.Longest * float64(ttl))
	if length < slotLength*9/10 {
		longest = min(longest, length/2)
	}
	return draw.LogUniform(rng, shortest, max(longest, shortest))
}
