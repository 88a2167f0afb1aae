package nodetest_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// acquiring lets something happen before every acquire, releasing after every
// release, and queueing after all that a queue has to do with.
func acquiring(n *broken, before func(s *served)) { n.around(before, nil, node.Acquire) }
func releasing(n *broken, after func(s *served))  { n.around(nil, after, node.Release) }
func queueing(n *broken, after func(s *served)) {
	n.around(nil, after, node.Acquire, node.Release, node.ForceRelease)
}

// notifying lets something happen after every notification.
func notifying(n *broken, after func(s *served)) {
	queueing(n, func(s *served) {
		if s.notify != "" {
			after(s)
		}
	})
}

// notifyFirst notifies the first, as a release that has freed the name does.
func (s *served) notifyFirst() {
	register := s.Register
	_, s.notify = rule.Serve(s.Entry, s.q, s.now, node.Request{Op: node.ForceRelease})
	s.Register = register
}

// headless is a queue in which nobody is first.
type headless struct{ rule.Queue }

func (headless) Head() string { return "" }

type queueMutant struct {
	name, caught string
	change       func(*broken)
}

// queueMutants are nodes that keep waiter queues as somebody might well do it,
// and the rule that must catch each.
var queueMutants = append(reserveMutants, []queueMutant{
	{"none with queues", "", func(*broken) {}},

	{"refused does not join", "RefusedWithAPlaceIsQueued", func(n *broken) {
		queueing(n, func(s *served) { s.q.Waiters = nil })
	}},
	{"strangers join", "RefusedWithAPlaceIsQueued", func(n *broken) {
		strangers := 0
		acquiring(n, func(s *served) {
			if s.r.Place.Waiter == "" {
				strangers++
				s.r.Place = node.Place{Waiter: fmt.Sprint("stranger ", strangers), Stamp: 1}
			}
		})
	}},
	{"queue by arrival", "QueueGoesByStamp", func(n *broken) {
		arrivals := int64(0)
		acquiring(n, func(s *served) {
			arrivals++
			s.r.Place.Stamp = arrivals
		})
	}},
	{"stamps with 14 digits", "QueueGoesByStamp", func(n *broken) {
		acquiring(n, func(s *served) {
			f, _ := strconv.ParseFloat(fmt.Sprintf("%.14g", float64(s.r.Place.Stamp)), 64)
			s.r.Place.Stamp = int64(f)
		})
	}},
	{"equal stamps by arrival", "EqualStampsGoByWaiter", func(n *broken) {
		arrivals := map[string]int{}
		queueing(n, func(s *served) {
			arrivals[s.r.Place.Waiter] = len(arrivals)
			slices.SortFunc(s.q.Waiters, func(a, b node.Place) int { return arrivals[a.Waiter] - arrivals[b.Waiter] })
		})
	}},
	{"equal stamps by the number", "EqualStampsGoByWaiter", func(n *broken) {
		number := func(p node.Place) int {
			i, _ := strconv.Atoi(p.Waiter[strings.Index(p.Waiter, ":")+1:])
			return i
		}
		queueing(n, func(s *served) {
			slices.SortFunc(s.q.Waiters, func(a, b node.Place) int { return number(a) - number(b) })
		})
	}},
	{"asking twice joins twice", "AskingAgainKeepsThePlace", func(n *broken) {
		queueing(n, func(s *served) {
			if p := s.r.Place; p.Waiter != "" && p.Stamp != 0 && s.Leased(s.now) {
				s.q.Waiters = append(s.q.Waiters, node.Place{Waiter: p.Waiter + " again", Stamp: p.Stamp})
			}
		})
	}},
	{"asking again moves", "AskingAgainKeepsThePlace", func(n *broken) {
		acquiring(n, func(s *served) { s.q.Remove(s.r.Place.Waiter) })
	}},
	{"ahead counts the waiter too", "AheadCountsThoseBefore", func(n *broken) {
		queueing(n, func(s *served) { s.a.Ahead = min(s.a.Ahead+1, len(s.q.Waiters)) })
	}},
	{"ahead counts all", "AheadCountsThoseBefore", func(n *broken) {
		queueing(n, func(s *served) { s.a.Ahead = len(s.q.Waiters) })
	}},
	{"ahead of nobody is nothing", "AheadCountsThoseBefore", func(n *broken) {
		queueing(n, func(s *served) { s.a.Ahead %= max(1, len(s.q.Waiters)) })
	}},
	{"one queue for a stripe", "QueuesNeverMix", func(n *broken) {
		n.queues.key = func(name string) string { return fmt.Sprint(node.Stripe(name)) }
	}},
	{"queues without case", "QueuesNeverMix", func(n *broken) { n.queues.key = strings.ToLower }},
	{"any place is taken", "BadPlaceChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.Place = node.Place{} })
	}},
	{"a bad place is nobody's", "BadPlaceChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.Place = node.Place{} })
		acquiring(n, func(s *served) {
			if rule.CheckPlace(s.r.Place) != nil {
				s.r.Place = node.Place{}
			}
		})
	}},
	{"places are checked for acquire only", "BadPlaceChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) {
			if r.Op == node.Release {
				r.Place = node.Place{}
			}
		})
	}},
	{"stamps are not checked", "BadPlaceChangesNothing", func(n *broken) {
		checking(n, func(r *node.Request) { r.Place.Stamp = 0 })
	}},
	{"waiters have at most 18 digits", "BadPlaceChangesNothing", func(n *broken) {
		n.check = func(r node.Request) error {
			if len(r.Place.Waiter) > 32+1+18 {
				return node.ErrInvalid
			}
			return rule.Check(r)
		}
	}},
	{"no clock", "HeldCarriesTheClock", func(n *broken) {
		queueing(n, func(s *served) { s.a.Clock = 0 })
	}},
	{"clock in microseconds", "HeldCarriesTheClock", func(n *broken) {
		queueing(n, func(s *served) { s.a.Clock /= 1000 })
	}},
	{"clock in a smaller unit", "HeldCarriesTheClock", func(n *broken) {
		queueing(n, func(s *served) { s.a.Clock *= 1000 })
	}},
	{"clock goes back", "HeldCarriesTheClock", func(n *broken) {
		queueing(n, func(s *served) { s.a.Clock = -s.a.Clock })
	}},
	{"queues are never forgotten", "QueueIsForgotten", func(n *broken) { n.queues.expiry = forever }},
	{"queues end 15s after the first", "QueueIsRememberedWhileSomebodyAsks", func(n *broken) { n.queues.renewed = false }},

	{"a free name is anybody's", "FreeNameGoesToTheFirst", func(n *broken) {
		acquiring(n, func(s *served) { s.as = headless{s.q} })
	}},
	{"the granted one stays in the queue", "FirstIsGrantedAndLeaves", func(n *broken) {
		n.around(nil, func(s *served) { s.q.join(s.r.Place) }, node.Acquire)
	}},
	{"the first is notified although it asks", "FirstIsGrantedAndLeaves", func(n *broken) {
		acquiring(n, func(s *served) {
			if !s.Leased(s.now) && len(s.q.Waiters) > 0 {
				s.q.join(s.r.Place)
				s.r.Place = node.Place{}
			}
		})
	}},
	{"a newcomer is never first", "FirstIsGrantedAndLeaves", func(n *broken) {
		var newcomer node.Place
		n.around(func(s *served) {
			newcomer = node.Place{}
			if _, in := s.q.Ahead(s.r.Place.Waiter); !s.Leased(s.now) && !in {
				newcomer, s.r.Place = s.r.Place, newcomer
			}
		}, func(s *served) { s.q.join(newcomer) }, node.Acquire)
	}},
	{"the late release of an expired lease notifies", "ExpiryNotifiesNobody", func(n *broken) {
		releasing(n, func(s *served) {
			if s.r.Place.Waiter == "" && !s.Leased(s.now) {
				s.notifyFirst()
			}
		})
	}},
	{"release notifies nobody", "ReleaseNotifiesTheFirst", func(n *broken) {
		releasing(n, func(s *served) {
			if s.notify != "" {
				s.Holder, s.q.Waiters, s.notify = "", s.waiting, ""
			}
		})
	}},
	{"release tells everybody", "ReleaseNotifiesTheFirst", func(n *broken) {
		n.queues.tell = func(s *served) []string {
			all := []string{s.notify}
			for _, p := range s.q.Waiters {
				all = append(all, p.Waiter)
			}
			return all
		}
	}},
	{"release tells twice", "ReleaseNotifiesTheFirst", func(n *broken) {
		n.queues.tell = func(s *served) []string { return []string{s.notify, s.notify} }
	}},
	{"release notifies the last", "ReleaseNotifiesTheFirst", func(n *broken) {
		reverse := func(s *served) { slices.Reverse(s.q.Waiters) }
		n.around(reverse, reverse, node.Release)
	}},
	{"any release notifies", "ReleaseNotifiesTheFirst", func(n *broken) {
		releasing(n, func(s *served) {
			if s.a.Status == node.Lost && len(s.waiting) > 0 {
				s.notify = s.waiting[0].Waiter
			}
		})
	}},
	{"force release notifies nobody", "ForceReleaseNotifiesTheFirst", func(n *broken) {
		n.around(func(s *served) { s.as = headless{s.q} }, nil, node.ForceRelease)
	}},
	{"force release leaves what is reserved", "ForceReleaseNotifiesTheFirst", func(n *broken) {
		n.around(nil, func(s *served) {
			if s.was.Leased(s.now) && s.was.Holder.Reserves() {
				*s.Entry, s.q.Waiters, s.notify = s.was, s.waiting, ""
			}
		}, node.ForceRelease)
	}},
	{"joins in two steps", "RefusedIsNotified", func(n *broken) { n.torn = true }},
	{"everybody is reachable", "ClosedListenerIsSkipped", func(n *broken) {
		n.queues.reachable = func(*brokenQueue, string) bool { return true }
	}},
	{"one that is gone is notified in vain", "ClosedListenerIsSkipped", func(n *broken) {
		releasing(n, func(s *served) {
			if s.notify != "" && s.notify != s.waiting[0].Waiter {
				s.Holder, s.q.Waiters, s.notify = "", s.waiting[1:], ""
			}
		})
	}},
	{"listens after Close", "ClosedListenerIsSkipped", func(n *broken) { n.queues.listens = true }},
	{"notifications are missed from the start", "HealthyNodeMissesNothing", func(n *broken) { n.queues.nervous = true }},
	{"a notification is missed with each one", "HealthyNodeMissesNothing", func(n *broken) {
		notifying(n, func(s *served) {
			for _, l := range s.q.n.listeners {
				l.notify("")
			}
		})
	}},
	{"rules that take long", "", func(n *broken) { n.queues.slow = true }},
}...)

// A node that keeps no queues is not asked about them, and none is kept waiting for
// a rule that takes long.
func TestQueueRulesAreForQueuers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mutant, rule string
		runs         bool
	}{
		{"none", "RefusedWithAPlaceIsQueued", false},
		{"none with queues", "RefusedWithAPlaceIsQueued", true},
		{"none with queues", "QueueIsForgotten", true},
		{"rules that take long", "RefusedWithAPlaceIsQueued", true},
		{"rules that take long", "QueueIsForgotten", false},
	} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMutant$/^"+c.rule+"$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), mutantVariable+"="+c.mutant)
		out, err := cmd.CombinedOutput()
		if ran := strings.Contains(string(out), "--- PASS: TestMutant/"+c.rule+" "); err != nil || ran != c.runs {
			t.Errorf("%s on %q: ran %v, error %v; want %v\n%s", c.rule, c.mutant, ran, err, c.runs, out)
		}
	}
}
