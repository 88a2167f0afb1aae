package core_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	proved "github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/proof"
)

// replay is how a run of a broken rule of the proof is replayed in the model of the searches.
type replay struct {
	broken broken // the variant of the shipped code that is the broken rule
	model  model  // what else the model needs, beside what follows from the steps

	// What the run leaves open, or has otherwise.
	registers [nNodes]uint8    // other names have moved them before
	propose   map[string]uint8 // by holder
	owner     string           // of the extensions; A if it is empty
	kinds     map[string]int   // of extensions, by round: 1 lets others share the name from then on, or no more
	past      string           // a holder that has come and gone before: the model has room for two others
	// an extension wants the mark to be so much larger, and starts as soon as its holder has the token
	early  uint8
	before map[string][]move // just before a step
	later  []string          // steps that come only after the first loss of memory
	skips  string            // an action that the model needs no move for
}

const (
	inTokens = "tokens.runs: "
	inShared = "shared.runs: "
)

// replays has the broken rules that are replayed.
var replays = map[string]replay{
	inTokens + "a grant leaves the register as it is":                      {broken: broken{grantsUnmoved: true}},
	inTokens + "confirm does not look at the lease":                        {broken: broken{confirmAnyway: true}},
	inTokens + "confirm does not compare the register":                     {broken: broken{confirmOutrun: true}},
	inTokens + "every acceptance counts":                                   {broken: broken{extendsByLease: true}},
	inTokens + "a lease that is created again has no origin":               {broken: broken{originZero: true}},
	inTokens + "it has its holder's token":                                 {broken: broken{originToken: true}},
	inTokens + "it has what was promised to its holder there":              {broken: broken{originGranted: true}},
	inTokens + "a node agrees to a raise, and does not raise its register": {broken: broken{raisesNothing: true}},
	inTokens + "a mark is raised by nodes that do not have the lease":      {broken: broken{raisesByLost: true}},
	inTokens + "a mark is raised by one node less than a quorum": {broken: broken{raisesByFew: true},
		propose: map[string]uint8{"B": 2}},
	inTokens + "a force release in one pass":                 {broken: broken{noFloor: true}},
	inTokens + "a holder begins with what the registers are": {broken: broken{refusalsCount: true}},
	inTokens + "the largest of different numbers is the token, without confirm, and a force release in one pass": {
		broken: broken{noConfirm: true}, registers: [nNodes]uint8{0, 1, 0}, propose: map[string]uint8{"A": 1, "B": 1}},
	inTokens + "an answer of an earlier round counts, and the validity from the start of the later one": {
		broken: broken{roundsMixed: true},
	},

	// An attempt asks for a raise once an extension is carried, with a mark that is too small. So
	// that extension is older than in the run, and its requests to raise registers, or the answers
	// to it, come late.
	inTokens + "a mark is raised without asking": {
		broken: broken{raisesUnasked: true}, early: 1,
	},
	inShared + "a mark is raised without asking": {
		broken: broken{raisesUnasked: true}, early: 1,
	},
	inTokens + "a mark is raised by leases that began with no more than it is raised to": {
		broken: broken{raisesByNew: true}, early: 1,
	},
	// No attempt asks for its own mark. So the smaller raise is one to 2, and the larger one, to 3,
	// is of the next extension.
	inTokens + "a mark is raised by an answer to a smaller raise": {broken: broken{raisesByOther: true}, early: 1,
		before: map[string][]move{"raise A _ 1 _": {
			at(giveUpRaise, 0, 0, 0), at(startExtend, 0, 0, 2), at(runExtend, 0, 0, 2),
			at(runExtend, 0, 1, 2),
			at(hearExtend, 0, 0, 0), at(hearExtend, 0, 1, 0)}}},

	inTokens + "the quarantine ends while what was promised before still counts": {broken: broken{rebuiltEarly: true}},
	inTokens + "the quarantine ends while a raise may still be agreed to by what was said before": {
		broken: broken{raisesLate: true}, propose: map[string]uint8{"B": 2}},
	inTokens + "a node votes before its registers are rebuilt": {broken: broken{unread: 2}},
	inTokens + "it has read one node less":                     {broken: broken{unread: 1}},
	inTokens + "it reads nodes that do not vote": {broken: broken{readsOut: true},
		model: model{together: true}},
	inTokens + "the quarantine counts from before the mark of admission is removed": {
		broken: broken{straysLate: true}, model: model{strays: true}, owner: "B"},
	// An attempt of before the loss is over when the quarantine is. So B begins after it. What it
	// is granted differs, so that it confirms.
	inTokens + "the same: a confirm finds a lease that was made while the node did not vote": {
		broken: broken{straysLate: true}, model: model{strays: true}, registers: [nNodes]uint8{0, 0, 2},
		later: []string{"begin B", "acquire n2 B 1"}},
	inTokens + "a lease from before is there after the quarantine": {
		broken: broken{leasesOutlive: true}, model: model{strays: true}, owner: "B"},
	inTokens + "a store lives on as two, and the old one's grants count: no witness has seen them": {
		broken: broken{votesOut: true},
	},
	inTokens + "the same of its extensions": {
		broken: broken{votesOut: true},
	},

	inTokens + "a lock is exported without a raise":         {broken: broken{exportsUnraised: true}},
	inShared + "a lock is exported without a raise":         {broken: broken{exportsUnraised: true}},
	inTokens + "the text has the mark after the raise":      {broken: broken{exportsRaised: true}},
	inTokens + "a name is given with the register as it is": {broken: broken{givesUnmoved: true}},
	// What is released may be any lease, so that none has to be made.
	inTokens + "a node that does not vote gives": {broken: broken{votesOut: true},
		skips: "stray"},
	inTokens + "a waiter holds by what one node less than a quorum has given": {broken: broken{takesByFew: true}},

	inShared + "confirm makes an epoch where there is none, as in node/rule/shared.go, a confirm is executed twice": {
		broken: broken{confirmsEpoch: true}, model: model{repeats: true}, kinds: map[string]int{"k1": 1}},
	inShared + "who shares a name first gets the register as it is": {broken: broken{sharesUnmoved: true}},
	inShared + "the epoch outlives those who shared the name": {
		broken: broken{sharesOld: true}, model: model{epoch: 1}, registers: [nNodes]uint8{1, 1, 0}, past: "A"},
	inShared + "what one of them has confirmed is not promised to those who come": {broken: broken{confirmsShared: true}},
	// An attempt that lets others share its name has no extension any more that does not: this one
	// is over with it.
	inShared + "an extension of before counts after its holder lets others share the name": {
		broken: broken{unshares: true}, kinds: map[string]int{"k1": 1, "k2": 1}},
	inShared + "an extension that finds other readers leaves them an epoch of before its floor: a late acquire of an exported holder joins it": {
		broken: broken{keepsEpoch: true}},
	// An acquire is carried out twice, and one more holder shares the name: without one the epoch
	// would end.
	inShared + "the same of the epoch that the holder found": {
		broken: broken{keepsEpoch: true}, model: model{repeats: true}},
	// B asks for a confirm when it has two grants that differ.
	inShared + "a node that is out, with leases from before, votes": {
		broken: broken{votesOut: true}, registers: [nNodes]uint8{0, 0, 1}, propose: map[string]uint8{"A": 2, "B": 1}},
}

const (
	oneLease = "no promise of the searches: leases vanish at any moment there, and a node has no two that are not shared. " +
		"TestSharedAgainstANaiveNode of package rule looks for names that are leased twice"
	noSlots    = "attempts of the searches ask for no slots, and see above. TestSharedAgainstANaiveNode of package rule has slots"
	noResource = "the searches have no guarded resource. Package fence has its tests"
)

// notReplayed has the others, and why.
var notReplayed = map[string]string{
	inTokens + "a resource does not compare tokens":                             noResource,
	inTokens + "a name is leased that is leased already":                        oneLease,
	inTokens + "a lease that a holder has lost is made anew beside another one": oneLease,
	inShared + "a holder has the name alone where others share it":              oneLease,
	inShared + "a number of slots is not compared":                              noSlots,
	inShared + "the same, by the extension of a holder whose leases have ended": noSlots,
}

// violations is how the searches call it that a promise of the proof is broken.
var violations = map[string]string{
	"P1-unique": "tokens are unique: ",
	"P1-order":  " had finished: ",
	"P2-extend": " is carried, but when it started ",
	"P2-mark":   " and the mark ",
	"P4-adopt":  "'s lock is adopted, but ",
}

// For each broken rule of the proof, TestReplays breaks the shipped code in the same way. It has it
// break the same promise, by the run of the proof. With the rules as they are shipped the run ends
// early: a move is not possible, or an answer is another one.
func TestReplays(t *testing.T) {
	var names []string
	for _, file := range []string{"tokens", "shared"} {
		for _, run := range brokenRuns(t, file) {
			name := file + ".runs: " + run.Name
			names = append(names, name)
			r, replayed := replays[name]
			if _, not := notReplayed[name]; replayed == not {
				t.Errorf("%s is to be in one of replays and notReplayed", name)
				continue
			}
			if replayed {
				t.Run(name, func(t *testing.T) { r.test(t, run) })
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(replays)), slices.Collect(maps.Keys(notReplayed))) {
		if !slices.Contains(names, name) {
			t.Errorf("there is no broken rule %s", name)
		}
	}
	t.Logf("%d of %d broken rules are replayed", len(replays), len(names))
}

// brokenRuns returns the runs of the broken rules of a model.
func brokenRuns(t *testing.T, file string) (broken []*proved.Run) {
	t.Helper()
	read := func(name string) string {
		text, err := proof.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	m, err := proved.Parse(file+".model", read(file+".model"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := m.Runs(file+".runs", read(file+".runs"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(runs, func(r *proved.Run) bool { return !r.Broken })
}

func (r *replay) test(t *testing.T, run *proved.Run) {
	says, known := violations[run.Breaks.Name]
	if !known {
		t.Fatalf("the searches have no promise %s", run.Breaks.Name)
	}
	p := newPlayer(r, run, r.broken)
	err := p.play()
	if err != nil {
		t.Fatalf("%v, after\n%s", err, p.said.until(p.violation))
	}
	if !strings.Contains(p.violation, says) {
		t.Fatalf("%s is not broken:\n%s", run.Breaks.Name, p.said.until(p.violation))
	}
	t.Logf("%s is broken:\n%s", run.Breaks.Name, p.said.until(p.violation))
	p = newPlayer(r, run, broken{})
	if err := p.play(); err == nil || p.violation != "" {
		t.Fatalf("the shipped rules allow it:\n%s", p.said.until(p.violation))
	} else {
		t.Logf("with the shipped rules: %v", err)
	}
}
