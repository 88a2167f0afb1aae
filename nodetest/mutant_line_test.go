package nodetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

type (
	acquiring = func(*rule.Entry) rule.Reply
	said      = rule.Reply
)

// place lets every acquire come with another place.
func place(n *brokenLines, change func(v *visit, p node.Place) node.Place) {
	sound := n.acquire
	n.acquire = func(v *visit, p node.Place, acquire acquiring) (said, string) {
		return sound(v, change(v, p), acquire)
	}
}

// releasing lets something happen after every release.
func releasing(n *brokenLines, change func(v *visit, before rule.Entry, line rule.Line, p node.Place, reply said, called string) string) {
	sound := n.release
	n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
		before, line := *v.e, slices.Clone(*v.l)
		reply, called := sound(v, holder, p)
		return reply, change(v, before, line, p, reply, called)
	}
}

// called lets something happen after every call.
func called(n *brokenLines, change func(v *visit, waiter string)) {
	n.after = func(v *visit, _ node.Place, called string) {
		if called != "" {
			change(v, called)
		}
	}
}

type lineMutant struct {
	name, caught string
	change       func(*brokenLines)
}

// lineMutants are nodes that keep waiters in line as somebody might well do it,
// and the rule that must catch each.
var lineMutants = append(keepMutants, []lineMutant{
	{"none in line", "", func(*brokenLines) {}},

	{"refused does not join", "RefusedWithAPlaceJoins", func(n *brokenLines) {
		n.after = func(v *visit, _ node.Place, _ string) { *v.l = nil }
	}},
	{"strangers join", "RefusedWithAPlaceJoins", func(n *brokenLines) {
		strangers := 0
		place(n, func(_ *visit, p node.Place) node.Place {
			if p.Waiter == "" {
				strangers++
				p = node.Place{Waiter: fmt.Sprint("stranger ", strangers), Stamp: 1}
			}
			return p
		})
	}},
	{"line by arrival", "LineGoesByStamp", func(n *brokenLines) {
		arrivals := int64(0)
		place(n, func(_ *visit, p node.Place) node.Place {
			arrivals++
			p.Stamp = arrivals
			return p
		})
	}},
	{"stamps with 14 digits", "LineGoesByStamp", func(n *brokenLines) {
		place(n, func(_ *visit, p node.Place) node.Place {
			f, _ := strconv.ParseFloat(fmt.Sprintf("%.14g", float64(p.Stamp)), 64)
			p.Stamp = int64(f)
			return p
		})
	}},
	{"equal stamps by arrival", "EqualStampsGoByWaiter", func(n *brokenLines) {
		arrivals := map[string]int{}
		n.after = func(v *visit, p node.Place, _ string) {
			arrivals[p.Waiter] = len(arrivals)
			slices.SortFunc(*v.l, func(a, b node.Place) int { return arrivals[a.Waiter] - arrivals[b.Waiter] })
		}
	}},
	{"equal stamps by the number", "EqualStampsGoByWaiter", func(n *brokenLines) {
		number := func(p node.Place) int {
			i, _ := strconv.Atoi(p.Waiter[strings.Index(p.Waiter, ":")+1:])
			return i
		}
		n.after = func(v *visit, _ node.Place, _ string) {
			slices.SortFunc(*v.l, func(a, b node.Place) int { return number(a) - number(b) })
		}
	}},
	{"asking twice joins twice", "JoiningTwiceKeepsThePlace", func(n *brokenLines) {
		n.after = func(v *visit, p node.Place, _ string) {
			if p.Waiter != "" && p.Stamp != 0 && v.e.Leased(v.now) {
				*v.l = append(*v.l, node.Place{Waiter: p.Waiter + " again", Stamp: p.Stamp})
			}
		}
	}},
	{"asking again moves", "JoiningTwiceKeepsThePlace", func(n *brokenLines) {
		place(n, func(v *visit, p node.Place) node.Place {
			v.l.Leave(p.Waiter)
			return p
		})
	}},
	{"ahead counts the waiter too", "AheadCountsThoseBefore", func(n *brokenLines) {
		n.ahead = func(l rule.Line, waiter string) int { return min(l.Ahead(waiter)+1, len(l)) }
	}},
	{"ahead counts all", "AheadCountsThoseBefore", func(n *brokenLines) {
		n.ahead = func(l rule.Line, _ string) int { return len(l) }
	}},
	{"ahead of nobody is nothing", "AheadCountsThoseBefore", func(n *brokenLines) {
		n.ahead = func(l rule.Line, waiter string) int { return l.Ahead(waiter) % max(1, len(l)) }
	}},
	{"one line for a stripe", "LinesNeverMix", func(n *brokenLines) {
		n.key = func(name string) string { return fmt.Sprint(node.Stripe(name)) }
	}},
	{"lines without case", "LinesNeverMix", func(n *brokenLines) { n.key = strings.ToLower }},
	{"any place is taken", "BadPlaceChangesNothing", func(n *brokenLines) {
		n.check = func(string, node.Place) error { return nil }
	}},
	{"a bad place is nobody's", "BadPlaceChangesNothing", func(n *brokenLines) {
		n.check = func(string, node.Place) error { return nil }
		place(n, func(_ *visit, p node.Place) node.Place {
			if rule.CheckPlace(p) != nil {
				p = node.Place{}
			}
			return p
		})
	}},
	{"places are checked for acquire only", "BadPlaceChangesNothing", func(n *brokenLines) {
		n.check = func(op string, p node.Place) error {
			if op == "release" {
				return nil
			}
			return rule.CheckPlace(p)
		}
	}},
	{"stamps are not checked", "BadPlaceChangesNothing", func(n *brokenLines) {
		n.check = func(_ string, p node.Place) error { return rule.CheckPlace(node.Place{Waiter: p.Waiter}) }
	}},
	{"waiters have at most 18 digits", "BadPlaceChangesNothing", func(n *brokenLines) {
		n.check = func(_ string, p node.Place) error {
			if len(p.Waiter) > 32+1+18 {
				return fmt.Errorf("too long")
			}
			return rule.CheckPlace(p)
		}
	}},
	{"no clock", "HeldCarriesTheClock", func(n *brokenLines) {
		n.clock = func(time.Duration) time.Duration { return 0 }
	}},
	{"clock in microseconds", "HeldCarriesTheClock", func(n *brokenLines) {
		n.clock = func(now time.Duration) time.Duration { return now / 1000 }
	}},
	{"clock in a smaller unit", "HeldCarriesTheClock", func(n *brokenLines) {
		n.clock = func(now time.Duration) time.Duration { return now * 1000 }
	}},
	{"clock goes back", "HeldCarriesTheClock", func(n *brokenLines) {
		n.clock = func(now time.Duration) time.Duration { return -now }
	}},
	{"lines are never forgotten", "LineIsForgotten", func(n *brokenLines) { n.expiry = forever }},
	{"lines end 15s after the first", "LineIsKeptWhileSomebodyAsks", func(n *brokenLines) { n.renewed = false }},

	{"a free name is anybody's", "FreeNameGoesToTheFirst", func(n *brokenLines) {
		n.acquire = func(v *visit, p node.Place, acquire acquiring) (said, string) {
			if v.e.Holder.Reserves() && v.e.Holder == node.Reserved(p.Waiter) {
				v.e.Holder = ""
			}
			reply := acquire(v.e)
			if reply.Status == node.Granted {
				v.l.Leave(p.Waiter)
			} else {
				v.l.Join(p)
			}
			return reply, ""
		}
	}},
	{"the granted one stays in line", "FirstIsGrantedAndLeaves", func(n *brokenLines) {
		sound := n.acquire
		n.acquire = func(v *visit, p node.Place, acquire acquiring) (said, string) {
			reply, called := sound(v, p, acquire)
			v.l.Join(p)
			return reply, called
		}
	}},
	{"the first is called although it asks", "FirstIsGrantedAndLeaves", func(n *brokenLines) {
		sound := n.acquire
		n.acquire = func(v *visit, p node.Place, acquire acquiring) (said, string) {
			if !v.e.Leased(v.now) && len(*v.l) > 0 {
				v.l.Join(p)
				p = node.Place{}
			}
			return sound(v, p, acquire)
		}
	}},
	{"a newcomer is never first", "FirstIsGrantedAndLeaves", func(n *brokenLines) {
		sound := n.acquire
		n.acquire = func(v *visit, p node.Place, acquire acquiring) (said, string) {
			if !v.e.Leased(v.now) && v.l.Ahead(p.Waiter) == len(*v.l) {
				defer v.l.Join(p)
				return sound(v, node.Place{}, acquire)
			}
			return sound(v, p, acquire)
		}
	}},
	{"the late release of an expired lease calls", "ExpiryCallsNobody", func(n *brokenLines) {
		releasing(n, func(v *visit, _ rule.Entry, _ rule.Line, p node.Place, _ said, called string) string {
			if p.Waiter == "" && !v.e.Leased(v.now) {
				_, called = rule.ForceReleaseInLine(v.e, v.l, v.now, v.reachable, func(*rule.Entry) said { return said{Status: node.Granted} })
			}
			return called
		})
	}},
	{"release calls nobody", "ReleaseCallsTheFirst", func(n *brokenLines) {
		releasing(n, func(v *visit, _ rule.Entry, line rule.Line, _ node.Place, _ said, called string) string {
			if called != "" {
				v.e.Holder, *v.l = "", line
			}
			return ""
		})
	}},
	{"release tells everybody", "ReleaseCallsTheFirst", func(n *brokenLines) {
		n.tell = func(v *visit, called string) []string {
			all := []string{called}
			for _, p := range *v.l {
				all = append(all, p.Waiter)
			}
			return all
		}
	}},
	{"release tells twice", "ReleaseCallsTheFirst", func(n *brokenLines) {
		n.tell = func(_ *visit, called string) []string { return []string{called, called} }
	}},
	{"release calls the last", "ReleaseCallsTheFirst", func(n *brokenLines) {
		sound := n.release
		n.release = func(v *visit, holder node.Holder, p node.Place) (said, string) {
			slices.Reverse(*v.l)
			defer func() { slices.Reverse(*v.l) }()
			return sound(v, holder, p)
		}
	}},
	{"any release calls", "ReleaseCallsTheFirst", func(n *brokenLines) {
		releasing(n, func(v *visit, before rule.Entry, line rule.Line, _ node.Place, reply said, called string) string {
			if reply.Status == node.Lost && len(line) > 0 {
				return line[0].Waiter
			}
			return called
		})
	}},
	{"force release calls nobody", "ForceReleaseCallsTheFirst", func(n *brokenLines) {
		n.force = func(v *visit, force acquiring) (said, string) { return force(v.e), "" }
	}},
	{"force release leaves what is kept", "ForceReleaseCallsTheFirst", func(n *brokenLines) {
		sound := n.force
		n.force = func(v *visit, force acquiring) (said, string) {
			if v.e.Leased(v.now) && v.e.Holder.Reserves() {
				return said{Status: node.Granted}, ""
			}
			return sound(v, force)
		}
	}},
	{"joins in two steps", "RefusedIsCalled", func(n *brokenLines) { n.torn = true }},
	{"everybody is reachable", "ClosedListenerIsSkipped", func(n *brokenLines) {
		n.reachable = func(*visit, string) bool { return true }
	}},
	{"one that is gone is called in vain", "ClosedListenerIsSkipped", func(n *brokenLines) {
		releasing(n, func(v *visit, _ rule.Entry, line rule.Line, _ node.Place, _ said, called string) string {
			if called != "" && called != line[0].Waiter {
				v.e.Holder, *v.l = "", line[1:]
				return ""
			}
			return called
		})
	}},
	{"listens after Close", "ClosedListenerIsSkipped", func(n *brokenLines) { n.listens = true }},
	{"calls are missed from the start", "HealthyNodeMissesNothing", func(n *brokenLines) { n.nervous = true }},
	{"a call is missed with each call", "HealthyNodeMissesNothing", func(n *brokenLines) {
		called(n, func(v *visit, _ string) {
			for _, l := range v.n.listeners {
				l.event("")
			}
		})
	}},
	{"rules that take long", "", func(n *brokenLines) { n.slow = true }},
}...)

// A node that keeps no lines is not asked about them, and none is kept waiting for
// a rule that takes long.
func TestLineRulesAreForQueuers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mutant, rule string
		runs         bool
	}{
		{"none", "RefusedWithAPlaceJoins", false},
		{"none in line", "RefusedWithAPlaceJoins", true},
		{"none in line", "LineIsForgotten", true},
		{"rules that take long", "RefusedWithAPlaceJoins", true},
		{"rules that take long", "LineIsForgotten", false},
	} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMutant$/^"+c.rule+"$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), mutantVariable+"="+c.mutant)
		out, err := cmd.CombinedOutput()
		if ran := strings.Contains(string(out), "--- PASS: TestMutant/"+c.rule+" "); err != nil || ran != c.runs {
			t.Errorf("%s on %q: ran %v, error %v; want %v\n%s", c.rule, c.mutant, ran, err, c.runs, out)
		}
	}
}
