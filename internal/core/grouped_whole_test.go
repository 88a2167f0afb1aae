package core_test

import (
	"bytes"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// deed is that an attempt comes to hold, or that its extension is carried.
type deed struct {
	token, mark, other fence.Token // other: that of the other attempt, 0 if it has not held
	round              uint32
	after              bool // it began when the other attempt had held: its token must be larger
	tainted            bool // the extension began too late
}

// did notes a deed, for TestGrouped.
func (m *model) did(s *state, i int) {
	if m.deeds == nil {
		return
	}
	a, b := &s.attempts[i], &s.attempts[1-i]
	d := deed{token: a.core.Token(), after: a.after != 0, tainted: a.tainted}
	d.mark, _ = a.core.Mark()
	d.round, _ = a.core.Extension()
	if b.wasHeld() {
		d.other = b.core.Token()
	}
	m.deeds(d)
}

// all returns what attempts do in a search, and what is to be seen of its states.
func (m model) all(grouped bool) (deeds map[deed]bool, sights map[string]bool, r result) {
	var mu sync.Mutex
	deeds, sights = make(map[deed]bool), make(map[string]bool)
	m.grouped, m.attempts = grouped, 2
	m.sees = func(s *state) {
		if sight, ok := m.sight(s); ok {
			mu.Lock()
			defer mu.Unlock()
			sights[sight] = true
		}
	}
	m.deeds = func(d deed) {
		mu.Lock()
		defer mu.Unlock()
		deeds[d] = true
	}
	return deeds, sights, survey(&m, runtime.GOMAXPROCS(0), time.Time{})
}

// TestGrouped has the search with fewer states find all that the search in full finds, and
// nothing else. That is what attempts do, and what nodes and attempts are while none has given up.
func TestGrouped(t *testing.T) {
	one, two := []uint8{1}, []uint8{1, 2}
	for _, c := range []struct {
		name  string
		long  bool
		model model
	}{
		{"an extension each", false, model{proposals: one, rounds: 1, reserves: true}},
		{"registers move", false, model{proposals: one, bumps: 1, inTurn: true}},
		{"two proposals", true, model{proposals: two, reserves: true}},
		{"registers differ", true, model{proposals: one, registers: [][nNodes]uint8{{0, 0, 1}}}},
		{"registers differ, and confirms time out", false,
			model{proposals: one, registers: [][nNodes]uint8{{0, 1, 4}}, timeouts: true, inTurn: true}},
		{"confirms time out", true, model{proposals: one, timeouts: true}},
		{"a node loses its memory, in turn", true, model{proposals: one, losses: 1, rounds: 1, inTurn: true}},
		{"two extensions of the first, in turn", true,
			model{proposals: one, rounds: 2, first: true, inTurn: true, reserves: true}},
	} {
		if c.long && !campaign {
			t.Logf("REDUCED: not here, it takes too long: %s", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			m := c.model
			whole, seen, r := m.all(false)
			few, fewSeen, less := m.all(true)
			t.Log(r, "\n", less, "\n", len(whole), "and", len(few), "deeds,", len(seen), "and", len(fewSeen), "sights")
			if !maps.Equal(seen, fewSeen) {
				t.Errorf("%d sights in the one, %d in the other, or not the same", len(seen), len(fewSeen))
			}
			for d := range few {
				if !whole[d] {
					t.Errorf("%+v is found among fewer states only", d)
				}
			}
			for d := range whole {
				if !few[d] && !slices.ContainsFunc(slices.Collect(maps.Keys(few)), d.lessThan) {
					t.Errorf("%+v is found in the search in full only", d)
				}
			}
		})
	}
}

// lessThan reports whether another deed is the same and forbids more.
func (d deed) lessThan(other deed) bool {
	other.after, other.tainted = other.after && d.after, other.tainted && d.tainted
	return d == other
}

// sight is what is to be seen of a state, whatever its nodes and attempts are called.
func (m *model) sight(s *state) (least string, ok bool) {
	for _, order := range orders[m.attempts] {
		var b []byte
		for _, i := range order {
			a := &s.attempts[i].core
			round, outcome := a.Extension()
			mark, _ := a.Mark()
			switch a.Phase() {
			case core.Over:
				return "", false
			case core.Acquiring:
				b = append(b, 0)
			case core.Confirming:
				b = append(b, 1, byte(a.Token()))
			default:
				if b = append(b, 2, byte(a.Token()), byte(round)); m.alive(s, i) { // otherwise states are one that differ
					b = append(b, core.Flags(outcome == core.Carried), byte(mark))
				}
			}
		}
		var blocks [nNodes][]byte
		for n := range nNodes {
			at := &s.nodes[n]
			lease := byte(0)
			for k, i := range order {
				if int(at.lease) == i {
					lease = byte(k + 1)
				}
			}
			blocks[n] = []byte{lease, at.register, core.Flags(at.out, at.read)}
		}
		slices.SortFunc(blocks[:], bytes.Compare)
		for _, block := range blocks {
			b = append(b, block...)
		}
		if b = append(b, s.bumps, s.losses); least == "" || string(b) < least {
			least = string(b)
		}
	}
	return least, true
}

// What an attempt does when it hears is not left out. It may ask one more node to raise its
// register, or act when a confirm times out after other answers.
func TestGroupedHears(t *testing.T) {
	const a = 0
	one := func(kind moveKind, node, arg int) []move { return []move{at(kind, a, node-1, arg)} }
	for _, c := range []struct {
		name  string
		model model
		path  []move
		then  func(s *state) bool
	}{
		{"one more node is asked to raise its register",
			model{rounds: 3, wants: []uint8{1}, inTurn: true},
			slices.Concat(one(begin, 1, 1), one(runAcquire, 1, 0), one(runAcquire, 2, 0), one(hearAcquire, 1, 0),
				one(hearAcquire, 2, 0), one(startExtend, 1, 1), one(runExtend, 1, 1), one(runExtend, 2, 1),
				one(hearExtend, 1, 0), one(hearExtend, 2, 0),
				one(startExtend, 1, 0), one(runExtend, 3, 2)),
			func(s *state) bool { return s.attempts[a].extends[2].raises != [maxRounds + 1]uint8{} }},
		{"confirms time out after a larger number was heard of",
			model{timeouts: true, registers: [][nNodes]uint8{{0, 1, 4}}},
			slices.Concat(one(begin, 1, 1), one(runAcquire, 1, 0), one(runAcquire, 2, 0), one(runAcquire, 3, 0),
				one(hearAcquire, 1, 0), one(hearAcquire, 2, 0)),
			func(s *state) bool {
				return s.attempts[a].core.Phase() == core.Confirming && s.attempts[a].core.Token() == 5
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &c.model
			m.attempts, m.proposals, m.grouped = 2, []uint8{1}, true
			s := m.initialStates()[0]
			var steps trace
			for i, mv := range c.path {
				if !slices.Contains(m.moves(&s, nil), mv) {
					t.Fatalf("step %d, %+v, is not possible after\n%s", i+1, mv, steps.until(""))
				}
				m.apply(&s, mv, &steps)
			}
			if c.then(&s) {
				t.Fatal("this is so before")
			}
			found := false
			g := grouped{m: m, visit: func(next *state) { found = found || c.then(next) }}
			if violation := g.expand(&s); violation != "" || !found {
				t.Errorf("it is not found, %q, after\n%s", violation, steps.until(""))
			}
		})
	}
}
