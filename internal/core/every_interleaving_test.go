package core_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// TestEveryInterleaving visits every state that two attempts on three nodes can reach, with the
// shipped Attempt and the shipped rules. Messages are delivered in every order, late or never.
// Leases vanish at any moment, and a free name is reserved for a waiter at any moment. In every one
// of them
//   - tokens are unique,
//   - an acquisition that began after another one had finished has the larger token,
//   - an extension is carried only if, when it started, no holder with a larger token had had the
//     lock, and no operator had broken it,
//   - a mark that is wanted (Attempt.Want) and raised is smaller than each larger token.
//
// What is bounded is what the table says: the proposals, how often another name moves a register,
// the losses of memory, the extensions. The budgets are spread over several searches because
// together they would not be complete in minutes. Searches that are grouped find the same with
// fewer states.
func TestEveryInterleaving(t *testing.T) {
	searches := []exploration{
		{"another name moves a register",
			model{proposals: []uint8{1, 2, 3}, bumps: 1, reserves: true, grouped: true}, 250_000},
		{"confirms time out", model{proposals: []uint8{1, 2, 3}, timeouts: true, reserves: true, grouped: true}, 22_000},
		{"one loss of memory and an extension",
			model{proposals: []uint8{1}, losses: 1, rounds: 1, reserves: true, grouped: true}, 570_000},
		{"two extensions each", model{proposals: []uint8{1}, rounds: 2, reserves: true, grouped: true}, 3_600_000},
		{"a forced release", model{attempts: 1, proposals: []uint8{1}, bumps: 1, rounds: 2, force: true, reserves: true},
			750_000},
		{"a forced release that jumps ahead",
			model{attempts: 1, proposals: []uint8{1}, rounds: 2, force: true, jumps: 2, reserves: true}, 1_700_000},
		{"a mark that is wanted by the first, in turn",
			model{proposals: []uint8{1}, rounds: 2, wants: []uint8{2}, inTurn: true, first: true, reserves: true},
			3_300_000},
	}
	silences := exploration{"nodes are silent, and answer later", model{proposals: []uint8{1, 2}, silences: true},
		1_350_000}
	if !campaign {
		t.Log("REDUCED: no loss of memory, one extension each, one proposal")
		searches[0].model.proposals, searches[0].model.bumps, searches[0].atLeast = []uint8{1}, 0, 170_000
		searches[1].model.proposals, searches[1].atLeast = []uint8{1}, 850_000
		searches[2].model.losses, searches[2].atLeast = 0, 320_000
		searches[4].model.bumps, searches[4].atLeast = 0, 57_000
		searches = append(searches[:3], searches[4])
		silences.model.proposals, silences.atLeast = []uint8{1}, 1
	}
	searches = append(searches, silences)
	exploreAll(t, searches)
}

// exploration is one of several, each of which is to be complete.
type exploration struct {
	name    string
	model   model
	atLeast int // states: a search that suddenly visits far fewer is broken itself
}

// With SEARCH_STEPS set, and where they are reduced, each move is one of the models that are
// proved: see tie. It takes a quarter longer, and some hundred bytes for each state that is to be
// expanded. Then, and with SEARCH_FULL set, no search is grouped, and a violation has its path.
func exploreAll(t *testing.T, searches []exploration) {
	t.Helper()
	for _, s := range searches {
		// A model that is proved begins with no epoch.
		s.model.tied = s.model.epoch == 0 && (!campaign || os.Getenv("SEARCH_STEPS") != "")
		s.model.grouped = s.model.grouped && !s.model.tied && os.Getenv("SEARCH_FULL") == ""
		t.Run(s.name, func(t *testing.T) {
			if r := explore(t, &s.model, time.Time{}); r.States < s.atLeast {
				t.Errorf("only %d states, expected %d or more: does the search still see everything?", r.States, s.atLeast)
			}
		})
	}
}

// A field that the canonical form of a state does not know would merge states
// that differ.
func TestStatesKnowEveryField(t *testing.T) {
	// No attempt keeps its leases here. To a node, and so to all others, that is an extension that
	// comes late. Then it is a lease that vanishes where it is released again. The answers decide
	// only what the caller is told. So does spentAt, for which TestAdoptedOnce is. Spent is the
	// same for all who adopt a lock by one text.
	const known = "params phase reason token until due pace granted acquire leaseless unsent mark wanted " +
		"round roundStart votes highest extended floor raiseFrom raiseEnd raised unagreed waiting abandoned releasing keeping spent spentAt rounds silent late freeing"
	attempt := reflect.TypeFor[core.Attempt]()
	for i := range attempt.NumField() {
		field := attempt.Field(i).Name
		if !strings.Contains(" "+known+" ", " "+field+" ") {
			t.Errorf("Attempt has a new field %s: teach AppendState or AppendNode about it "+
				"if the future depends on it, and add it here", field)
		}
	}
	rounds, _ := attempt.FieldByName("rounds")
	for i := range rounds.Type.NumField() {
		field := rounds.Type.Field(i).Name
		if !strings.Contains(" begun last first asked open patience unheard misses shares willShare ", " "+field+" ") {
			t.Errorf("rounds has a new field %s: teach AppendRounds about it, and add it here", field)
		}
	}
	// Given is made again for each notice, of the numbers that were heard and given back. With a
	// clock that stands still there is nothing else to it.
	of := reflect.TypeFor[core.Given]()
	for _, of := range []reflect.Type{of, of.Field(0).Type.Elem()} {
		for i := range of.NumField() {
			field := of.Field(i).Name
			if !strings.Contains(" nodes taken number until back asked clock known told then at ", " "+field+" ") {
				t.Errorf("Given has a new field %s: teach hearNotice and givenModel about it, and add it here", field)
			}
		}
	}
}
