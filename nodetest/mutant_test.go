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

// mutants are nodes as somebody might well write them, and the rule that must
// catch each. Some are bugs that lock libraries really had.
var mutants = []struct {
	name, caught string
	change       func(*broken)
}{
	{"none", "", func(*broken) {}},

	{"grant does not raise the register", "AcquireGrantsTheLargerOfNextAndProposal", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			before := e.Register
			r := rule.Acquire(e, now, holder, ttl, proposal)
			e.Register = before
			return r
		}
	}},
	{"grant takes a proposal that was used", "AcquireGrantsTheLargerOfNextAndProposal", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			if !e.Leased(now) && proposal > 0 && proposal == e.Register {
				e.Register--
			}
			return rule.Acquire(e, now, holder, ttl, proposal)
		}
	}},
	{"grant ignores the proposal", "AcquireGrantsTheLargerOfNextAndProposal", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, _ fence.Token) rule.Reply {
			return rule.Acquire(e, now, holder, ttl, 0)
		}
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
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			e.Holder = ""
			return rule.Acquire(e, now, holder, ttl, proposal)
		}
	}},
	{"refusal moves the register", "AcquireRefusesWhileLeased", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			r := rule.Acquire(e, now, holder, ttl, proposal)
			e.Register = max(e.Register, proposal)
			return r
		}
	}},
	{"remaining in another unit", "AcquireRefusesWhileLeased", func(n *broken) {
		n.left = func(d time.Duration) time.Duration { return d / 1000 }
	}},
	{"remaining longer than the TTL", "AcquireRefusesWhileLeased", func(n *broken) {
		n.left = func(d time.Duration) time.Duration { return d + time.Second }
	}},
	{"acquire is reentrant", "AcquireRefusesItsOwnHolder", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			if e.Holder == holder {
				e.Holder = ""
			}
			return rule.Acquire(e, now, holder, ttl, proposal)
		}
	}},
	{"leases never end", "LeaseEndsByItself", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			return rule.Acquire(e, now, holder, 2*time.Minute, proposal)
		}
	}},
	{"expiry lowers the register", "LeaseEndsByItself", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			if e.Holder != "" && !e.Leased(now) {
				e.Register = 0
			}
			return rule.Acquire(e, now, holder, ttl, proposal)
		}
	}},
	{"TTL zero deletes and reports success", "BadTTLChangesNothing", func(n *broken) {
		n.ttl = func(ttl time.Duration) (time.Duration, error) { return ttl.Truncate(time.Millisecond), nil }
	}},
	{"TTL zero becomes a millisecond", "BadTTLChangesNothing", func(n *broken) {
		n.ttl = func(ttl time.Duration) (time.Duration, error) { return max(ttl, time.Millisecond), nil }
	}},
	{"huge TTL overflows", "HugeTTLIsNeverAnEmptyGrant", func(n *broken) {
		n.now.Store(int64(time.Hour * 24 * 365 * 30)) // as a wall clock would be
		n.ttl = func(ttl time.Duration) (time.Duration, error) {
			if ttl < time.Millisecond {
				return 0, errors.New("too short")
			}
			return ttl, nil
		}
	}},
	{"any number is taken", "BadTokenChangesNothing", func(n *broken) {
		n.number = func(node.Request, error) error { return nil }
	}},
	{"numbers are checked for acquire only", "BadTokenChangesNothing", func(n *broken) {
		n.number = func(r node.Request, err error) error {
			if r.TTL == 0 || err != nil && strings.Contains(string(r.Holder), ":good") {
				return nil
			}
			return err
		}
	}},
	{"tokens lose a unit", "TokensStayExact", func(n *broken) {
		n.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply {
			r := rule.Acquire(e, now, holder, ttl, proposal)
			fmt.Sscan(fmt.Sprintf("%.0f", float64(float32(r.Register))), &r.Register)
			if r.Status == node.Granted && r.Register > 1<<50 {
				e.Register = r.Register
			} else if r.Status == node.Granted {
				r.Register = e.Register
			}
			return r
		}
	}},

	{"confirm without the lease", "ConfirmNeedsTheLease", func(n *broken) {
		n.confirm = func(e *rule.Entry, _ time.Duration, r node.Request) rule.Reply {
			if e.Register > r.Token {
				return rule.Reply{Status: node.Outrun, Register: e.Register}
			}
			e.Register = r.Token
			return rule.Reply{Status: node.Granted, Register: r.Token}
		}
	}},
	{"confirm of an expired lease", "ConfirmNeedsTheLease", func(n *broken) {
		n.confirm = func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply {
			if e.Holder == r.Holder {
				e.Expires = max(e.Expires, now+1)
			}
			return rule.Confirm(e, now, r.Holder, r.Token)
		}
	}},
	{"confirm accepts an outrun token", "ConfirmRefusesAnOutrunToken", func(n *broken) {
		n.confirm = func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply {
			reply := rule.Confirm(e, now, r.Holder, r.Token)
			if reply.Status == node.Outrun {
				return rule.Reply{Status: node.Granted, Register: r.Token}
			}
			return reply
		}
	}},
	{"confirm sets the register back", "ConfirmRefusesAnOutrunToken", func(n *broken) {
		n.confirm = func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply {
			reply := rule.Confirm(e, now, r.Holder, r.Token)
			if reply.Status == node.Outrun {
				e.Register = r.Token
			}
			return reply
		}
	}},
	{"confirm does not raise the register", "ConfirmRaisesTheRegister", func(n *broken) {
		n.confirm = func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply {
			before := e.Register
			reply := rule.Confirm(e, now, r.Holder, r.Token)
			e.Register = before
			return reply
		}
	}},
	{"confirm prolongs the lease", "ConfirmDoesNotProlong", func(n *broken) {
		n.confirm = func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply {
			reply := rule.Confirm(e, now, r.Holder, r.Token)
			if reply.Status == node.Granted {
				e.Expires = now + r.TTL
			}
			return reply
		}
	}},

	{"extend keeps the old TTL", "ExtendSetsTheNewTTL", func(n *broken) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) rule.Reply {
			expires, live := e.Expires, e.Leased(now)
			r := rule.Extend(e, now, holder, ttl, token)
			if live {
				e.Expires = expires
			}
			return r
		}
	}},
	{"extend never shortens", "ExtendSetsTheNewTTL", func(n *broken) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) rule.Reply {
			expires := e.Expires
			r := rule.Extend(e, now, holder, ttl, token)
			e.Expires = max(e.Expires, expires)
			return r
		}
	}},
	{"extend answers with the token asked about", "ExtendReportsTheRegister", func(n *broken) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) rule.Reply {
			r := rule.Extend(e, now, holder, ttl, token)
			r.Register = token
			return r
		}
	}},
	{"extend does not repair", "ExtendRepairsAVacantLease", func(n *broken) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) rule.Reply {
			if !e.Leased(now) {
				return rule.Reply{Status: node.Lost}
			}
			return rule.Extend(e, now, holder, ttl, token)
		}
	}},
	{"extend repairs whatever the register", "ExtendRefusesWhenTheRegisterPassed", func(n *broken) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, _ fence.Token) rule.Reply {
			return rule.Extend(e, now, holder, ttl, fence.MaxToken)
		}
	}},
	{"extend takes another's lease", "ExtendRefusesAnothersLease", func(n *broken) {
		n.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) rule.Reply {
			e.Holder = ""
			return rule.Extend(e, now, holder, ttl, token)
		}
	}},

	{"release does nothing", "ReleaseFreesAtOnce", func(n *broken) {
		n.release = func(e *rule.Entry, now time.Duration, holder node.Holder) rule.Reply {
			before := *e
			r := rule.Release(e, now, holder)
			*e = before
			return r
		}
	}},
	{"release without a check of the owner", "ReleaseLeavesAnothersLease", func(n *broken) {
		n.release = func(e *rule.Entry, now time.Duration, _ node.Holder) rule.Reply {
			return rule.Release(e, now, e.Holder)
		}
	}},
	{"release compares labels", "ReleaseLeavesAnothersLease", func(n *broken) {
		n.release = func(e *rule.Entry, now time.Duration, holder node.Holder) rule.Reply {
			if e.Holder.Label() == holder.Label() {
				holder = e.Holder
			}
			return rule.Release(e, now, holder)
		}
	}},
	{"release of an expired lease succeeds", "ReleaseAfterTheEndIsLost", func(n *broken) {
		n.release = func(e *rule.Entry, now time.Duration, holder node.Holder) rule.Reply {
			return rule.Release(e, 0, holder)
		}
	}},
	{"force release keeps the register", "ForceReleaseShutsOutTheOldHolder", func(n *broken) {
		n.force = func(e *rule.Entry, _ time.Duration, _ fence.Token) rule.Reply {
			e.Holder = ""
			return rule.Reply{Status: node.Granted, Register: e.Register}
		}
	}},
	{"force release ignores the floor", "ForceReleaseRespectsTheFloor", func(n *broken) {
		n.force = func(e *rule.Entry, now time.Duration, _ fence.Token) rule.Reply { return rule.ForceRelease(e, now, 0) }
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

const mutantVariable = "FENLOCK_NODETEST_MUTANT"

// TestMutant runs the suite on the mutant that TestSuiteCatches chose.
func TestMutant(t *testing.T) {
	chosen := os.Getenv(mutantVariable)
	if chosen == "" {
		return // only ever run by TestSuiteCatches, in a process of its own
	}
	for _, m := range mutants {
		if m.name == chosen {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				n := newBroken()
				m.change(n)
				return nodetest.Harness{Node: &client{broken: n}, Other: &client{broken: n},
					Wait: func(d time.Duration) { n.now.Add(int64(d)) }, Fast: true}
			})
			return
		}
	}
	for _, m := range lineMutants {
		if m.name == chosen {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness {
				n := newBrokenLines()
				m.change(n)
				return nodetest.Harness{Node: &queuer{&client{broken: n.broken}, n}, Other: &queuer{&client{broken: n.broken}, n},
					Wait: func(d time.Duration) { n.now.Add(int64(d)) }, Fast: !n.slow, Patience: time.Second / 5}
			})
			return
		}
	}
	for _, m := range startMutants {
		if m.name == chosen {
			nodetest.Run(t, func(t *testing.T) nodetest.Harness { return startHarness(m.start) })
			return
		}
	}
	t.Fatalf("there is no mutant %q", chosen)
}

// A suite that no broken node fails proves nothing. Each mutant runs in a
// process of its own, because a failed subtest cannot be taken back.
func TestSuiteCatches(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := map[[2]string]bool{}
	for _, m := range mutants {
		all[[2]string{m.name, m.caught}] = true
	}
	for _, m := range lineMutants {
		all[[2]string{m.name, m.caught}] = true
	}
	for _, m := range startMutants {
		all[[2]string{m.name, m.caught}] = true
	}
	if len(all) != len(mutants)+len(lineMutants)+len(startMutants) {
		t.Error("two mutants have one name")
	}
	for m := range all {
		name, caught := m[0], m[1]
		t.Run(strings.ReplaceAll(name, " ", "-")+"/"+caught, func(t *testing.T) {
			t.Parallel()
			run := "^TestMutant$"
			if caught != "" {
				run += "/^" + caught + "$"
			}
			cmd := exec.CommandContext(t.Context(), self, "-test.run="+run, "-test.count=1", "-test.v", "-test.timeout=2m")
			cmd.Env = append(os.Environ(), mutantVariable+"="+name)
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
