package nodetest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// acquiring has something happen before every acquire, releasing after every
// release, and queueing after all that a queue has to do with.
func acquiring(f func(s *served)) func(*broken) { return before(f, node.Acquire) }
func releasing(f func(s *served)) func(*broken) { return after(f, node.Release) }
func queueing(f func(s *served)) func(*broken) {
	return after(f, node.Acquire, node.Release, node.ForceRelease)
}

// notifying has something happen after every notification.
func notifying(f func(s *served)) func(*broken) {
	return queueing(func(s *served) {
		if s.notify != "" {
			f(s)
		}
	})
}

// notifyFirst notifies the first, as a release that has freed the name does.
func (s *served) notifyFirst() {
	register := s.Register
	_, s.notify = rule.Serve(s.Entry, s.q, s.now, node.Request{Op: node.ForceRelease})
	s.Register = register
}

// headless is a queue in which no waiter is first.
type headless struct{ rule.Queue }

func (headless) Head() string { return "" }

// queueMutants keep waiter queues.
var queueMutants = append(reserveMutants, []mutant{
	{"none with queues", "", func(*broken) {}},

	{"refused does not join", "RefusedWithAPlaceIsQueued", queueing(func(s *served) { s.q.Waiters = nil })},
	{"strangers join", "RefusedWithAPlaceIsQueued", acquiring(func(s *served) {
		if s.r.Place.Waiter == "" {
			s.q.n.arrivals++
			s.r.Place = node.Place{Waiter: fmt.Sprint("stranger ", s.q.n.arrivals), Stamp: 1}
		}
	})},
	{"queue by arrival", "QueueGoesByStamp", acquiring(func(s *served) {
		s.q.n.arrivals++
		s.r.Place.Stamp = s.q.n.arrivals
	})},
	{"stamps with 14 digits", "QueueGoesByStamp", acquiring(func(s *served) {
		f, _ := strconv.ParseFloat(fmt.Sprintf("%.14g", float64(s.r.Place.Stamp)), 64)
		s.r.Place.Stamp = int64(f)
	})},
	{"equal stamps by arrival", "EqualStampsGoByWaiter", func(n *broken) {
		arrivals := map[string]int{}
		queueing(func(s *served) {
			arrivals[s.r.Place.Waiter] = len(arrivals)
			slices.SortFunc(s.q.Waiters, func(a, b node.Place) int { return arrivals[a.Waiter] - arrivals[b.Waiter] })
		})(n)
	}},
	{"equal stamps by the number", "EqualStampsGoByWaiter", queueing(func(s *served) {
		number := func(p node.Place) int {
			i, _ := strconv.Atoi(p.Waiter[strings.Index(p.Waiter, ":")+1:])
			return i
		}
		slices.SortFunc(s.q.Waiters, func(a, b node.Place) int { return number(a) - number(b) })
	})},
	{"asking twice joins twice", "AskingAgainKeepsThePlace", queueing(func(s *served) {
		if p := s.r.Place; p.Waiter != "" && p.Stamp != 0 && s.Leased(s.now) {
			s.q.Waiters = append(s.q.Waiters, node.Place{Waiter: p.Waiter + " again", Stamp: p.Stamp})
		}
	})},
	{"asking again moves", "AskingAgainKeepsThePlace", acquiring(func(s *served) { s.q.Remove(s.r.Place.Waiter) })},
	{"ahead counts the waiter too", "AheadCountsThoseBefore",
		queueing(func(s *served) { s.a.Ahead = min(s.a.Ahead+1, len(s.q.Waiters)) })},
	{"ahead counts all", "AheadCountsThoseBefore", queueing(func(s *served) { s.a.Ahead = len(s.q.Waiters) })},
	{"ahead of nobody is nothing", "AheadCountsThoseBefore",
		queueing(func(s *served) { s.a.Ahead %= max(1, len(s.q.Waiters)) })},
	{"one queue for a stripe", "QueuesNeverMix", func(n *broken) {
		n.queues.key = func(name string) string { return fmt.Sprint(node.Stripe(name)) }
	}},
	{"queues without case", "QueuesNeverMix", func(n *broken) { n.queues.key = strings.ToLower }},
	{"any place is taken", "BadPlaceChangesNothing", checking(func(r *node.Request) { r.Place = node.Place{} })},
	{"a bad place is nobody's", "BadPlaceChangesNothing", both(
		checking(func(r *node.Request) { r.Place = node.Place{} }),
		acquiring(func(s *served) {
			if rule.CheckPlace(s.r.Place) != nil {
				s.r.Place = node.Place{}
			}
		}))},
	{"places are checked for acquire only", "BadPlaceChangesNothing", checking(func(r *node.Request) {
		if r.Op == node.Release {
			r.Place = node.Place{}
		}
	})},
	{"stamps are not checked", "BadPlaceChangesNothing", checking(func(r *node.Request) { r.Place.Stamp = 0 })},
	{"waiters have at most 18 digits", "BadPlaceChangesNothing", func(n *broken) {
		n.check = func(r node.Request) error {
			if len(r.Place.Waiter) > 32+1+18 {
				return node.ErrInvalid
			}
			return rule.Check(r)
		}
	}},
	{"anybody listens", "ListenNeedsAClient", func(n *broken) { n.queues.anybody = true }},
	{"no clock", "HeldCarriesTheClock", queueing(func(s *served) { s.a.Clock = 0 })},
	{"clock in microseconds", "HeldCarriesTheClock", queueing(func(s *served) { s.a.Clock /= 1000 })},
	{"clock in a smaller unit", "HeldCarriesTheClock", queueing(func(s *served) { s.a.Clock *= 1000 })},
	{"clock goes back", "HeldCarriesTheClock", queueing(func(s *served) { s.a.Clock = -s.a.Clock })},
	{"queues are never forgotten", "QueueIsForgotten", func(n *broken) { n.queues.expiry = forever }},
	{"queues end 15s after the first", "QueueIsRememberedWhileSomebodyAsks", func(n *broken) { n.queues.renewed = false }},

	{"a free name is anybody's", "FreeNameGoesToTheFirst", acquiring(func(s *served) { s.as = headless{s.q} })},
	{"the granted one stays in the queue", "FirstIsGrantedAndLeaves",
		after(func(s *served) { s.q.join(s.r.Place) }, node.Acquire)},
	{"the first is notified although it asks", "FirstIsGrantedAndLeaves", acquiring(func(s *served) {
		if !s.Leased(s.now) && len(s.q.Waiters) > 0 {
			s.q.join(s.r.Place)
			s.r.Place = node.Place{}
		}
	})},
	{"a newcomer is never first", "FirstIsGrantedAndLeaves", func(n *broken) {
		var newcomer node.Place
		around(func(s *served) {
			newcomer = node.Place{}
			if _, in := s.q.Ahead(s.r.Place.Waiter); !s.Leased(s.now) && !in {
				newcomer, s.r.Place = s.r.Place, newcomer
			}
		}, func(s *served) { s.q.join(newcomer) }, node.Acquire)(n)
	}},
	{"the late release of an expired lease notifies", "ExpiryNotifiesNobody", releasing(func(s *served) {
		if s.r.Place.Waiter == "" && !s.Leased(s.now) {
			s.notifyFirst()
		}
	})},
	{"release notifies nobody", "ReleaseNotifiesTheFirst", releasing(func(s *served) {
		if s.notify != "" {
			s.Holder, s.q.Waiters, s.notify = "", s.waiting, ""
		}
	})},
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
		around(reverse, reverse, node.Release)(n)
	}},
	{"any release notifies", "ReleaseNotifiesTheFirst", releasing(func(s *served) {
		if s.a.Status == node.Lost && len(s.waiting) > 0 {
			s.notify = s.waiting[0].Waiter
		}
	})},
	{"force release notifies nobody", "ForceReleaseNotifiesTheFirst",
		before(func(s *served) { s.as = headless{s.q} }, node.ForceRelease)},
	{"force release leaves what is reserved", "ForceReleaseNotifiesTheFirst", after(func(s *served) {
		if s.was.Leased(s.now) && s.was.Holder.Reserves() {
			*s.Entry, s.q.Waiters, s.notify = s.was, s.waiting, ""
		}
	}, node.ForceRelease)},
	{"joins in two steps", "RefusedIsNotified", func(n *broken) { n.torn = true }},
	{"everybody is reachable", "ClosedListenerIsSkipped", func(n *broken) {
		n.queues.reachable = func(*brokenQueue, string) bool { return true }
	}},
	{"one that is gone is notified in vain", "ClosedListenerIsSkipped", releasing(func(s *served) {
		if s.notify != "" && s.notify != s.waiting[0].Waiter {
			s.Holder, s.q.Waiters, s.notify = "", s.waiting[1:], ""
		}
	})},
	{"listens after Close", "ClosedListenerIsSkipped", func(n *broken) { n.queues.listens = true }},
	{"notifications are missed from the start", "HealthyNodeMissesNothing", func(n *broken) { n.queues.nervous = true }},
	{"a notification is missed with each one", "HealthyNodeMissesNothing", notifying(func(s *served) {
		for _, l := range s.q.n.listeners {
			l.notify("")
		}
	})},
	{"shown in another order", "WaitingShowsTheQueue", func(n *broken) {
		n.queues.shown = func(first []node.Waiter) ([]node.Waiter, int) {
			slices.Reverse(first)
			return first, len(first)
		}
	}},
	{"shown as if nobody waited", "WaitingShowsTheQueue", func(n *broken) {
		n.queues.shown = func([]node.Waiter) ([]node.Waiter, int) { return nil, 0 }
	}},
	{"shown without the label", "WaitingShowsTheQueue", func(n *broken) {
		n.queues.shown = func(first []node.Waiter) ([]node.Waiter, int) {
			for i := range first {
				first[i].Label = ""
			}
			return first, len(first)
		}
	}},
	{"who has a label cannot be told", "LabelledWaiterIsNotified", func(n *broken) {
		n.queues.reachable = func(q *brokenQueue, waiter string) bool {
			return strings.Count(waiter, ":") == 1 && len(q.n.listenersOf(waiter)) > 0
		}
	}},
	{"rules that take long", "", func(n *broken) { n.queues.slow = true }},
}...)

// A node that keeps no queues is not asked about them, and none is kept waiting for
// a rule that takes long.
func TestQueueRulesAreForQueuers(t *testing.T) {
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
		out, err := runMutant(t, c.mutant, "^TestMutant$/^"+c.rule+"$", "")
		if ran := strings.Contains(out, "--- PASS: TestMutant/"+c.rule+" "); err != nil || ran != c.runs {
			t.Errorf("%s on %q: ran %v, error %v; want %v\n%s", c.rule, c.mutant, ran, err, c.runs, out)
		}
	}
}
