package core_test

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
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

// allDeeds returns all that attempts do in a search.
func (m model) allDeeds(grouped bool) (deeds map[deed]bool, r result) {
	var mu sync.Mutex
	deeds = make(map[deed]bool)
	m.grouped = grouped
	m.deeds = func(d deed) {
		mu.Lock()
		defer mu.Unlock()
		deeds[d] = true
	}
	return deeds, survey(&m, runtime.GOMAXPROCS(0), time.Time{})
}

// TestGrouped has the search with fewer states find all that the search in full finds, and
// nothing else.
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
			whole, r := m.allDeeds(false)
			few, less := m.allDeeds(true)
			t.Log(r, "\n", less, "\n", len(whole), "and", len(few), "deeds")
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
