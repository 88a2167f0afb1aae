package nodetest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

// mutant is a node as a person might well write it, and the rule that must catch it.
type mutant struct {
	name, caught string
	change       func(*broken)
}

// mutants keep no queues. Some are bugs that lock libraries really had.
var mutants = []mutant{
	{"none", "", func(*broken) {}},

	{"grant does not raise the register", "AcquireGrantsTheLargerOfNextAndProposal",
		after(func(s *served) { s.Register = s.was.Register }, node.Acquire)},
	{"the clock is fast", "LeaseLastsItsTTL", before(func(s *served) { s.now *= 2 }, node.Acquire)},
	{"a lease outlives the boot", "LeasesEndWithTheBoot", func(n *broken) { n.bootless = true }},
	{"grant takes a proposal that was used", "AcquireGrantsTheLargerOfNextAndProposal", before(func(s *served) {
		if !s.Leased(s.now) && s.r.Token > 0 && s.r.Token == s.Register {
			s.Register--
		}
	}, node.Acquire)},
	{"grant ignores the proposal", "AcquireGrantsTheLargerOfNextAndProposal",
		before(func(s *served) { s.r.Token = 0 }, node.Acquire)},
	{"a register for each name", "RegisterServesItsWholeStripe", func(n *broken) {
		ids := map[string]int{}
		n.stripe = func(name string) int {
			if _, ok := ids[name]; !ok {
				ids[name] = len(ids)
			}
			return ids[name]
		}
	}},
	{"one register for all names", "RegisterServesItsWholeStripe", func(n *broken) {
		n.stripe = func(string) int { return 0 }
	}},
	{"acquire takes over a live lease", "AcquireRefusesWhileLeased",
		before(func(s *served) { s.Holder = "" }, node.Acquire)},
	{"refusal moves the register", "AcquireRefusesWhileLeased",
		after(func(s *served) { s.Register = max(s.Register, s.r.Token) }, node.Acquire)},
	{"remaining in another unit", "AcquireRefusesWhileLeased", func(n *broken) {
		n.left = func(d time.Duration) time.Duration { return d / 1000 }
	}},
	{"remaining longer than the TTL", "AcquireRefusesWhileLeased", func(n *broken) {
		n.left = func(d time.Duration) time.Duration { return d + time.Second }
	}},
	{"acquire is reentrant", "AcquireRefusesItsOwnHolder", before(func(s *served) {
		if s.Holder == s.r.Holder {
			s.Holder = ""
		}
	}, node.Acquire)},
	{"leases never end", "LeaseEndsByItself", before(func(s *served) { s.r.TTL = 2 * time.Minute }, node.Acquire)},
	{"expiry lowers the register", "LeaseEndsByItself", before(func(s *served) {
		if s.Holder != "" && !s.Leased(s.now) {
			s.Register = 0
		}
	}, node.Acquire)},
	{"TTL zero deletes and reports success", "BadTTLChangesNothing",
		checking(func(r *node.Request) { r.TTL = time.Second })},
	{"TTL zero becomes a millisecond", "BadTTLChangesNothing", both(
		checking(func(r *node.Request) { r.TTL = time.Second }),
		before(func(s *served) { s.r.TTL = max(s.r.TTL, time.Millisecond) }, node.Acquire, node.Extend))},
	{"huge TTL overflows", "HugeTTLIsNeverAnEmptyGrant", func(n *broken) {
		n.now.Store(int64(time.Hour * 24 * 365 * 30)) // as a wall clock would be
		checking(func(r *node.Request) { r.TTL = min(r.TTL, time.Second) })(n)
	}},
	{"any number is taken", "BadTokenChangesNothing", checking(func(r *node.Request) { r.Token = 0 })},
	{"numbers are checked for acquire only", "BadTokenChangesNothing", checking(func(r *node.Request) {
		if r.Op != node.Acquire {
			r.Token = 0
		}
	})},
	{"an operation that it does not know is a release", "UnknownOperationChangesNothing", func(n *broken) {
		unknown := func(r node.Request) bool { return r.Op == 0 || r.Op > node.ForceRelease }
		checking(func(r *node.Request) {
			if unknown(*r) {
				r.Op = node.Release
			}
		})(n)
		n.serve = func(s *served) {
			if unknown(s.r) {
				s.r.Op = node.Release
			}
			s.sound()
		}
	}},
	{"the empty holder is somebody", "EmptyHolderChangesNothing",
		checking(func(r *node.Request) { r.Holder = "somebody" })},
	{"what is malformed is an error like any other", "BadTTLChangesNothing", func(n *broken) {
		n.wrap = func(err error, _ node.Request) error { return fmt.Errorf("broken node: %v", err) }
	}},
	{"tokens lose a unit", "TokensStayExact", after(func(s *served) {
		if s.a.Status == node.Granted && s.Register > 1<<50 {
			fmt.Sscan(fmt.Sprintf("%.0f", float64(float32(s.Register))), &s.Register)
			s.a.Register = s.Register
		}
	}, node.Acquire)},

	{"confirm without the lease", "ConfirmNeedsTheLease", after(func(s *served) {
		if s.a.Status == node.Lost {
			s.Register = max(s.Register, s.r.Token)
			s.a = node.Answer{Status: node.Granted, Register: s.Register}
		}
	}, node.Confirm)},
	{"confirm of an expired lease", "ConfirmNeedsTheLease", before(func(s *served) {
		if s.Holder == s.r.Holder {
			s.Expires = max(s.Expires, s.now+1)
		}
	}, node.Confirm)},
	{"confirm accepts an outrun token", "ConfirmRefusesAnOutrunToken", after(func(s *served) {
		if s.a.Status == node.Outrun {
			s.a = node.Answer{Status: node.Granted, Register: s.r.Token}
		}
	}, node.Confirm)},
	{"confirm sets the register back", "ConfirmRefusesAnOutrunToken", after(func(s *served) {
		if s.a.Status == node.Outrun {
			s.Register = s.r.Token
		}
	}, node.Confirm)},
	{"confirm does not raise the register", "ConfirmRaisesTheRegister",
		after(func(s *served) { s.Register = s.was.Register }, node.Confirm)},
	{"confirm prolongs the lease", "ConfirmDoesNotProlong", after(func(s *served) {
		if s.a.Status == node.Granted {
			s.Expires = s.now + s.r.TTL
		}
	}, node.Confirm)},

	{"extend keeps the old TTL", "ExtendSetsTheNewTTL", after(func(s *served) {
		if s.was.Leased(s.now) {
			s.Expires = s.was.Expires
		}
	}, node.Extend)},
	{"extend never shortens", "ExtendSetsTheNewTTL",
		after(func(s *served) { s.Expires = max(s.Expires, s.was.Expires) }, node.Extend)},
	{"extend answers with the floor", "ExtendReportsTheOrigin",
		after(func(s *served) { s.a.Register = s.r.Token }, node.Extend)},
	{"extend answers with the register", "ExtendReportsTheOrigin",
		after(func(s *served) { s.a.Register = s.Register }, node.Extend)},
	{"extend takes the register for the origin", "ExtendReportsTheOrigin",
		after(func(s *served) { s.Origin = s.Register }, node.Extend)},
	{"extend takes the floor for the origin of a new lease", "ExtendTellsThatTheRegisterPassed", after(func(s *served) {
		if s.was.Holder == "" || s.was.Expires <= s.now {
			s.Origin = s.Register
		}
	}, node.Extend)},
	{"a floor does not raise the register", "ExtendReportsTheOrigin",
		after(func(s *served) { s.Register = s.was.Register }, node.Extend)},
	{"a floor lowers it", "ExtendReportsTheOrigin", after(func(s *served) {
		if s.r.Token > 0 {
			s.Register = s.r.Token
		}
	}, node.Extend)},
	{"extend does not repair", "ExtendRepairsAVacantLease", after(func(s *served) {
		if !s.was.Leased(s.now) {
			*s.Entry, s.a = s.was, node.Answer{Status: node.Lost}
		}
	}, node.Extend)},
	{"extend keeps the origin of a lease that was lost", "ExtendTellsThatTheRegisterPassed",
		after(func(s *served) { s.Origin, s.a.Register = s.was.Origin, s.was.Origin }, node.Extend)},
	{"extend takes another's lease", "ExtendRefusesAnothersLease",
		before(func(s *served) { s.Holder = "" }, node.Extend)},

	{"release does nothing", "ReleaseFreesAtOnce", after(func(s *served) { *s.Entry = s.was }, node.Release)},
	{"release without a check of the owner", "ReleaseLeavesAnothersLease",
		before(func(s *served) { s.r.Holder = s.Holder }, node.Release)},
	{"release compares labels", "ReleaseLeavesAnothersLease", before(func(s *served) {
		if s.Holder.Label() == s.r.Holder.Label() {
			s.r.Holder = s.Holder
		}
	}, node.Release)},
	{"release of an expired lease succeeds", "ReleaseAfterTheEndIsLost",
		before(func(s *served) { s.now = 0 }, node.Release)},
	{"force release keeps the register", "ForceReleaseShutsOutTheOldHolder",
		after(func(s *served) { s.Register = s.was.Register }, node.ForceRelease)},
	{"force release ignores the floor", "ForceReleaseRespectsTheFloor",
		before(func(s *served) { s.r.Token = 0 }, node.ForceRelease)},

	{"list stops early", "ListShowsEveryLeaseOnce", func(n *broken) {
		n.list = func(all []node.Lease) []node.Lease { return all[:min(len(all), 250)] }
	}},
	{"list repeats one", "ListShowsEveryLeaseOnce", func(n *broken) {
		n.list = func(all []node.Lease) []node.Lease { return append(all, all[:min(len(all), 1)]...) }
	}},
	{"list shows the identity", "ListShowsEveryLeaseOnce", func(n *broken) {
		n.list = func(all []node.Lease) []node.Lease {
			for i := range all {
				all[i].Label = string(n.leases[all[i].Name].Holder)
			}
			return all
		}
	}},
	{"list looks anywhere in the name", "ListShowsNamesWithAPrefix", func(n *broken) { n.begins = strings.Contains }},
	{"list takes a prefix for a pattern", "ListShowsNamesWithAPrefix", func(n *broken) {
		n.begins = func(name, prefix string) bool {
			match, _ := path.Match(prefix+"*", name)
			return match || strings.HasPrefix(name, prefix)
		}
	}},
	{"shown without a token", "LeaseShowsItsHolder", showing(func(l *node.Lease) { l.Token = 0 })},
	{"shown without an origin", "LeaseShowsItsHolder", showing(func(l *node.Lease) { l.Origin = 0 })},
	{"shown since now", "LeaseShowsItsHolder", showing(func(l *node.Lease) { l.Since = time.Now() })},
	{"shown as everybody's", "LeaseShowsItsHolder", showing(func(l *node.Lease) { l.Holder = min(l.Holder, 1) })},
	{"shown with the token of the lease before", "LeaseShowsItsHolder", after(func(s *served) {
		if s.a.Status == node.Granted {
			s.Entry.Token = s.was.Token
		}
	}, node.Acquire)},
	{"shown without what an extension tells", "LeaseShowsItsHolder",
		before(func(s *served) { s.r.OwnToken = 0 }, node.Extend)},
	{"shown without the token if an extension tells none", "LeaseShowsItsHolder", after(func(s *served) {
		if s.a.Status == node.Granted {
			s.Entry.Token = s.r.OwnToken
		}
	}, node.Extend)},
	{"label is the whole holder", "AcquireRefusesWhileLeased", func(n *broken) {
		n.label = func(holder node.Holder) string { return string(holder) }
	}},
	{"label of a foreign lease", "LabelsAreShownIdentitiesAreNot", func(n *broken) {
		n.label = func(holder node.Holder) string { return string(holder[strings.LastIndex(string(holder), ":")+1:]) }
	}},
	{"error shows the identity", "BadTTLChangesNothing", func(n *broken) {
		n.wrap = func(err error, r node.Request) error {
			return fmt.Errorf("broken node: %s for %s", err, string(r.Holder))
		}
	}},
	{"error does not name the node", "CloseEndsOnlyThisClient", func(n *broken) {
		n.wrap = func(err error, _ node.Request) error { return err }
	}},
	{"node without a name", "LeaseEndsByItself", func(n *broken) { n.mute = true }},
	{"names without case", "NamesNeverMix", func(n *broken) { n.key = strings.ToLower }},
	{"names trimmed", "NamesNeverMix", func(n *broken) { n.key = strings.TrimSpace }},
	{"names cut", "NamesNeverMix",
		func(n *broken) { n.key = func(name string) string { return name[:min(len(name), 255)] } }},
	{"names as C strings", "NamesNeverMix", func(n *broken) {
		n.key = func(name string) string { before, _, _ := strings.Cut(name, "\x00"); return before }
	}},
	{"names as valid UTF-8", "NamesNeverMix", func(n *broken) {
		n.key = func(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
	}},
	{"bookkeeping hidden from the list", "NamesAreNotBookkeeping", func(n *broken) {
		n.list = func(all []node.Lease) []node.Lease {
			return slices.DeleteFunc(all, func(l node.Lease) bool { return strings.HasPrefix(l.Name, "fenlock") })
		}
	}},

	{"reads and writes in two steps", "OneOfTwoClientsWins", func(n *broken) { n.torn = true }},
	{"reads and writes in two steps", "RegistersGrowUnderLoad", func(n *broken) { n.torn = true }},
	{"deaf to the context", "DoneContextIsAnError", func(n *broken) { n.deaf = true }},
	{"works after Close", "CloseEndsOnlyThisClient", func(n *broken) { n.immortal = true }},
	{"leaves a goroutine", "LeaseEndsByItself", func(n *broken) { n.leaky = true }},
}

// showing has an operator see leases otherwise.
func showing(change func(l *node.Lease)) func(*broken) {
	return func(n *broken) {
		n.show = func(l node.Lease) node.Lease {
			if l.Leased && !l.Reserved {
				change(&l)
			}
			return l
		}
	}
}

// Which mutant TestMutant runs the suite on, and whether that is no node.Admin.
const (
	mutantVariable = "FENLOCK_NODETEST_MUTANT"
	hiddenVariable = "FENLOCK_NODETEST_HIDDEN"
)

// hidden is a node that is no node.Admin.
type hidden struct{ node.Node }

func (h hidden) Engine() any {
	if q, ok := h.Node.Engine().(node.Queuer); ok {
		return struct{ node.Queuer }{q}
	}
	return nil
}

// onlyShown reports whether a mutant does wrong what only an operator would see.
func (m mutant) onlyShown() bool {
	prefixes := []string{"force release", "list ", "shown ", "bookkeeping"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(m.name, prefix) })
}

// kinds are the mutants by what they are made of.
var kinds = []struct {
	mutants  []mutant
	open     func(*broken) node.Node
	hideable bool
}{
	{mutants, func(n *broken) node.Node { return &client{broken: n} }, true},
	{queueMutants, func(n *broken) node.Node { return &queuer{&client{broken: n}} }, true},
	{startMutants, func(n *broken) node.Node { return &startClient{client: &client{broken: n}} }, false},
	{rejoinMutants, func(n *broken) node.Node { return &rejoiner{client: &client{broken: n}} }, false},
	{sharedMutants, func(n *broken) node.Node { return &sharer{&client{broken: n}} }, false},
}

// TestMutant runs the suite on the mutant that TestSuiteCatches chose.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantVariable)
	if name == "" {
		return // only ever run by TestSuiteCatches, in a process of its own
	}
	if number, ok := strings.CutPrefix(name, "forgetful "); ok {
		i, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
			s := newForgetful()
			forgetfulMutants[i].change(&s.wrong)
			return nodetest.Admission{Open: s.open, Wipe: s.wipe, Copy: s.copy, Wait: s.wait}
		})
		return
	}
	for _, kind := range kinds {
		i := slices.IndexFunc(kind.mutants, func(m mutant) bool { return m.name == name })
		if i < 0 {
			continue
		}
		nodetest.Run(t, func(t *testing.T) nodetest.Harness {
			b := newBroken()
			kind.mutants[i].change(b)
			n, other := kind.open(b), kind.open(b)
			if os.Getenv(hiddenVariable) != "" {
				n, other = hidden{n}, hidden{other}
			}
			wait := func(d time.Duration) { b.now.Add(int64(d)) }
			reboot := func() node.Node { b.boots(); return kind.open(b) }
			return nodetest.Harness{Node: n, Other: other, Wait: wait, Reboot: reboot, Fast: !b.queues.slow,
				Patience: time.Second / 5}
		})
		return
	}
	t.Fatalf("there is no mutant %q", name)
}

// A suite that no broken node fails proves nothing. Each mutant runs in a
// process of its own, because a failed subtest cannot be taken back.
func TestSuiteCatches(t *testing.T) {
	seen := map[[2]string]bool{}
	for _, kind := range kinds {
		for _, m := range kind.mutants {
			if seen[[2]string{m.name, m.caught}] {
				t.Errorf("two mutants are called %q", m.name)
			}
			seen[[2]string{m.name, m.caught}] = true
			catches(t, m.name, m.name, m.caught, "")
			if kind.hideable && !m.onlyShown() {
				catches(t, m.name, m.name, m.caught, "hidden")
			}
		}
	}
}

// The scenes of admission are mutants' business too: each engine that can forget runs them.
func TestAdmissionScenesCatch(t *testing.T) {
	for i, m := range forgetfulMutants {
		catches(t, m.name, fmt.Sprint("forgetful ", i), m.caught, "")
	}
}

// catches runs a rule on the mutant that is chosen by a variable, and wants it to fail.
func catches(t *testing.T, name, variable, caught, hidden string) {
	t.Run(strings.ReplaceAll(name, " ", "-")+"/"+caught+hidden, func(t *testing.T) {
		t.Parallel()
		run := "^TestMutant$"
		if caught != "" {
			run += "/^" + caught + "$"
		}
		out, err := runMutant(t, variable, run, hidden)
		var exit *exec.ExitError
		switch {
		case caught == "" && err != nil:
			t.Errorf("the suite fails on a sound node:\n%s", out)
		case caught != "" && !errors.As(err, &exit):
			t.Errorf("the suite passes (error %v)", err)
		case caught != "" && !strings.Contains(out, "--- FAIL: TestMutant/"+caught+" "):
			t.Errorf("%s does not catch it; failed instead:\n%s", caught, failures(out))
		}
	})
}

// runMutant runs some tests of the suite on a mutant.
func runMutant(t *testing.T, name, run, hidden string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+run, "-test.count=1", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), mutantVariable+"="+name, hiddenVariable+"="+hidden)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func failures(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "panic:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
