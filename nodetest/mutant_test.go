package nodetest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/nodetest"
)

// checking has the checks see another request than the one that is carried out.
func checking(n *broken, change func(r *node.Request)) {
	sound := n.check
	n.check = func(r node.Request) error {
		change(&r)
		return sound(r)
	}
}

// mutants are nodes as somebody might well write them, and the rule that must
// catch each. Some are bugs that lock libraries really had.
var mutants = []struct {
	name, caught string
	change       func(*broken)
}{
	{"none", "", func(*broken) {}},

	{"grant does not raise the register", "AcquireGrantsTheLargerOfNextAndProposal", func(n *broken) {
		n.around(nil, func(s *served) { s.Register = s.was.Register }, node.Acquire)
	}},
	{"grant takes a proposal that was used", "AcquireGrantsTheLargerOfNextAndProposal", func(n *broken) {
		n.around(func(s *served) {
			if !s.Leased(s.now) && s.r.Token > 0 && s.r.Token == s.Register {
				s.Register--
			}
		}, nil, node.Acquire)
	}},
	{"grant ignores the proposal", "AcquireGrantsTheLargerOfNextAndProposal", func(n *broken) {
		n.around(func(s *served) { s.r.Token = 0 }, nil, node.Acquire)
	}},
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
	{"acquire takes over a live lease", "AcquireRefusesWhileLeased", func(n *broken) {
		n.around(func(s *served) { s.Holder = "" }, nil, node.Acquire)
	}},
	{"refusal moves the register", "AcquireRefusesWhileLeased", func(n *broken) {
		n.around(nil, func(s *served) { s.Register = max(s.Register, s.r.Token) }, node.Acquire)
	}},
	{"remaining in another unit", "AcquireRefusesWhileLeased", func(n *broken) {
		n.left = func(d time.Duration) time.Duration { return d / 1000 }
	}},
	{"remaining longer than the TTL", "AcquireRefusesWhileLeased", func(n *broken) {
		n.left = func(d time.Duration) time.Duration { return d + time.Second }
	}},
	{"acquire is reentrant", "AcquireRefusesItsOwnHolder", func(n *broken) {
		n.around(func(s *served) {
			if s.Holder == s.r.Holder {
				s.Holder = ""
			}
		}, nil, node.Acquire)
	}},
	{"leases never end", "LeaseEndsByItself", func(n *broken) {
		n.around(func(s *served) { s.r.TTL = 2 * time.Minute }, nil, node.Acquire)
	}},
	{"expiry lowers the register", "LeaseEndsByItself", func(n *broken) {
		n.around(func(s *served) {
			if s.Holder != "" && !s.Leased(s.now) {
				s.Register = 0
			}
		}, nil, node.Acquire)
	}},
	{"TTL zero deletes and reports success", "BadTTLChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.TTL = time.Second })
	}},
	{"TTL zero becomes a millisecond", "BadTTLChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.TTL = time.Second })
		n.around(func(s *served) { s.r.TTL = max(s.r.TTL, time.Millisecond) }, nil, node.Acquire, node.Extend)
	}},
	{"huge TTL overflows", "HugeTTLIsNeverAnEmptyGrant", func(n *broken) {
		n.now.Store(int64(time.Hour * 24 * 365 * 30)) // as a wall clock would be
		checking(n, func(r *node.Request) { r.TTL = min(r.TTL, time.Second) })
	}},
	{"any number is taken", "BadTokenChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.Token = 0 })
	}},
	{"numbers are checked for acquire only", "BadTokenChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) {
			if r.Op != node.Acquire {
				r.Token = 0
			}
		})
	}},
	{"an operation that it does not know is a release", "UnknownOperationChangesNothing", func(n *broken) {
		n.check = func(r node.Request) error {
			if r.Op == 0 || r.Op > node.ForceRelease {
				return nil
			}
			return rule.Check(r)
		}
		sound := n.serve
		n.serve = func(s *served) {
			if s.r.Op == 0 || s.r.Op > node.ForceRelease {
				s.r.Op = node.Release
			}
			sound(s)
		}
	}},
	{"the empty holder is somebody", "EmptyHolderChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.Holder = "somebody" })
	}},
	{"what is malformed is an error like any other", "BadTTLChangesNothing", func(n *broken) {
		n.wrap = func(err error, _ node.Request) error { return fmt.Errorf("broken node: %v", err) }
	}},
	{"tokens lose a unit", "TokensStayExact", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.a.Status == node.Granted && s.Register > 1<<50 {
				fmt.Sscan(fmt.Sprintf("%.0f", float64(float32(s.Register))), &s.Register)
				s.a.Register = s.Register
			}
		}, node.Acquire)
	}},

	{"confirm without the lease", "ConfirmNeedsTheLease", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.a.Status == node.Lost {
				s.Register = max(s.Register, s.r.Token)
				s.a = node.Answer{Status: node.Granted, Register: s.Register}
			}
		}, node.Confirm)
	}},
	{"confirm of an expired lease", "ConfirmNeedsTheLease", func(n *broken) {
		n.around(func(s *served) {
			if s.Holder == s.r.Holder {
				s.Expires = max(s.Expires, s.now+1)
			}
		}, nil, node.Confirm)
	}},
	{"confirm accepts an outrun token", "ConfirmRefusesAnOutrunToken", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.a.Status == node.Outrun {
				s.a = node.Answer{Status: node.Granted, Register: s.r.Token}
			}
		}, node.Confirm)
	}},
	{"confirm sets the register back", "ConfirmRefusesAnOutrunToken", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.a.Status == node.Outrun {
				s.Register = s.r.Token
			}
		}, node.Confirm)
	}},
	{"confirm does not raise the register", "ConfirmRaisesTheRegister", func(n *broken) {
		n.around(nil, func(s *served) { s.Register = s.was.Register }, node.Confirm)
	}},
	{"confirm prolongs the lease", "ConfirmDoesNotProlong", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.a.Status == node.Granted {
				s.Expires = s.now + s.r.TTL
			}
		}, node.Confirm)
	}},

	{"extend keeps the old TTL", "ExtendSetsTheNewTTL", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.was.Leased(s.now) {
				s.Expires = s.was.Expires
			}
		}, node.Extend)
	}},
	{"extend never shortens", "ExtendSetsTheNewTTL", func(n *broken) {
		n.around(nil, func(s *served) { s.Expires = max(s.Expires, s.was.Expires) }, node.Extend)
	}},
	{"extend answers with the token asked about", "ExtendReportsTheRegister", func(n *broken) {
		n.around(nil, func(s *served) { s.a.Register = s.r.Token }, node.Extend)
	}},
	{"extend does not repair", "ExtendRepairsAVacantLease", func(n *broken) {
		n.around(nil, func(s *served) {
			if !s.was.Leased(s.now) {
				*s.Entry, s.a = s.was, node.Answer{Status: node.Lost}
			}
		}, node.Extend)
	}},
	{"extend repairs whatever the register", "ExtendRefusesWhenTheRegisterPassed", func(n *broken) {
		n.around(func(s *served) { s.r.Token = fence.MaxToken }, nil, node.Extend)
	}},
	{"extend takes another's lease", "ExtendRefusesAnothersLease", func(n *broken) {
		n.around(func(s *served) { s.Holder = "" }, nil, node.Extend)
	}},

	{"release does nothing", "ReleaseFreesAtOnce", func(n *broken) {
		n.around(nil, func(s *served) { *s.Entry = s.was }, node.Release)
	}},
	{"release without a check of the owner", "ReleaseLeavesAnothersLease", func(n *broken) {
		n.around(func(s *served) { s.r.Holder = s.Holder }, nil, node.Release)
	}},
	{"release compares labels", "ReleaseLeavesAnothersLease", func(n *broken) {
		n.around(func(s *served) {
			if s.Holder.Label() == s.r.Holder.Label() {
				s.r.Holder = s.Holder
			}
		}, nil, node.Release)
	}},
	{"release of an expired lease succeeds", "ReleaseAfterTheEndIsLost", func(n *broken) {
		n.around(func(s *served) { s.now = 0 }, nil, node.Release)
	}},
	{"force release keeps the register", "ForceReleaseShutsOutTheOldHolder", func(n *broken) {
		n.around(nil, func(s *served) { s.Register = s.was.Register }, node.ForceRelease)
	}},
	{"force release ignores the floor", "ForceReleaseRespectsTheFloor", func(n *broken) {
		n.around(func(s *served) { s.r.Token = 0 }, nil, node.ForceRelease)
	}},

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
	{"names cut", "NamesNeverMix", func(n *broken) { n.key = func(name string) string { return name[:min(len(name), 255)] } }},
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

// onlyShown are what only an operator would see.
var onlyShown = []string{"force release", "list ", "bookkeeping"}

func (m mutantName) onlyShown() bool {
	return slices.ContainsFunc(onlyShown, func(prefix string) bool { return strings.HasPrefix(m.name, prefix) })
}

type mutantName struct{ name, caught string }

// chosen returns a harness of two nodes.
func chosen(n, other node.Node, b *broken) nodetest.Harness {
	if os.Getenv(hiddenVariable) != "" {
		n, other = hidden{n}, hidden{other}
	}
	return nodetest.Harness{Node: n, Other: other, Wait: func(d time.Duration) { b.now.Add(int64(d)) }, Fast: !b.queues.slow, Patience: time.Second / 5}
}

// TestMutant runs the suite on the mutant that TestSuiteCatches chose.
func TestMutant(t *testing.T) {
	name := os.Getenv(mutantVariable)
	if name == "" {
		return // only ever run by TestSuiteCatches, in a process of its own
	}
	for _, m := range mutants {
		if m.name == name {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				n := newBroken()
				m.change(n)
				return chosen(&client{broken: n}, &client{broken: n}, n)
			})
			return
		}
	}
	for _, m := range queueMutants {
		if m.name == name {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				n := newBroken()
				m.change(n)
				return chosen(&queuer{&client{broken: n}}, &queuer{&client{broken: n}}, n)
			})
			return
		}
	}
	for _, m := range startMutants {
		if m.name == name {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness { return startHarness(m.start) })
			return
		}
	}
	t.Fatalf("there is no mutant %q", name)
}

// A suite that no broken node fails proves nothing. Each mutant runs in a
// process of its own, because a failed subtest cannot be taken back.
func TestSuiteCatches(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := map[mutantName]bool{}
	for _, m := range mutants {
		all[mutantName{m.name, m.caught}] = true
	}
	for _, m := range queueMutants {
		all[mutantName{m.name, m.caught}] = true
	}
	hideable := len(all)
	for _, m := range startMutants {
		all[mutantName{m.name, m.caught}] = false
	}
	if hideable != len(mutants)+len(queueMutants) || len(all) != hideable+len(startMutants) {
		t.Error("two mutants have one name")
	}
	for m, hideable := range all {
		suiteCatches(t, self, m, "")
		if hideable && !m.onlyShown() {
			suiteCatches(t, self, m, "hidden")
		}
	}
}

func suiteCatches(t *testing.T, self string, m mutantName, hidden string) {
	name, caught := m.name, m.caught
	t.Run(strings.ReplaceAll(name, " ", "-")+"/"+caught+hidden, func(t *testing.T) {
		t.Parallel()
		run := "^TestMutant$"
		if caught != "" {
			run += "/^" + caught + "$"
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run="+run, "-test.count=1", "-test.v", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), mutantVariable+"="+name, hiddenVariable+"="+hidden)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case caught == "" && err != nil:
			t.Errorf("the suite fails on a sound node:\n%s", out)
		case caught != "" && !errors.As(err, &exit):
			t.Errorf("the suite passes (error %v)", err)
		case caught != "" && !strings.Contains(string(out), "--- FAIL: TestMutant/"+caught+" "):
			t.Errorf("%s does not catch it; failed instead:\n%s", caught, failures(string(out)))
		}
	})
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
