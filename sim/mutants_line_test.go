package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
	contract "github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What can go wrong in waiting: nobody wakes up, everybody does, the wrong one
// does, somebody stays in line.

var lineMutants = []mutant{
	{name: "calls are lost for ever, and nobody looks again", seen: "redisson #1763", checks: is("progress"), seeds: 4, broken: func(r *rules) {
		r.callLost = func() bool { return true }
		r.due = func(*core.Turn) time.Duration { return 1 << 62 }
	}},
	{name: "a release calls nobody, and nobody looks again soon", seen: "redisson #1763", checks: is("progress"), seeds: 4, broken: func(r *rules) {
		r.callLost = func() bool { return true }
		honest := r.due
		r.due = func(t *core.Turn) time.Duration { return honest(t) + 10*core.Backstop }
	}},
	{name: "a call that comes during an attempt is missed, and nobody looks again", seen: "valkeylock", checks: is("progress"), seeds: 20, broken: func(r *rules) {
		due := make(map[*core.Turn]time.Duration)
		r.called = func(w *waiter, node int, now time.Duration) {
			if w.asleep {
				w.turn.Called(node, now)
				due[&w.turn] = w.turn.Due()
			}
		}
		r.due = func(t *core.Turn) time.Duration {
			if t.Due() == due[t] {
				return t.Due()
			}
			return t.Due() + 10*core.Backstop
		}
	}},
	{name: "everybody wakes up at each release", seen: "rueidislock", checks: is("cost"), seeds: 20, broken: func(r *rules) {
		r.startRelease = func(l *lock, now time.Duration) core.Action {
			w := l.c.w
			for _, c := range w.clients {
				for _, other := range c.lines.waiters {
					if other.a.name == l.name && other != l.waiter {
						w.atOf(c, w.now+w.profile.trip, func() {
							other.turn.Missed(c.now())
							other.woken()
						})
					}
				}
			}
			return l.attempt.StartRelease(now)
		}
	}, where: rush},
	{name: "a waiter tries again at once", seen: "rueidis #602", checks: is("cost"), seeds: 4, broken: func(r *rules) {
		r.due = func(*core.Turn) time.Duration { return 0 }
	}},
	{name: "who came last is served first", checks: is("order"), seeds: 20, broken: func(r *rules) {
		r.stamp = func(s *lines, w *waiter) (time.Duration, bool) {
			at, known := s.time.At(w.arrived)
			return 1000*time.Hour - at, known
		}
	}, where: queueing},
	{name: "stamps come from the clients' own clocks", checks: is("order"), seeds: 20, broken: func(r *rules) {
		r.stamp = func(_ *lines, w *waiter) (time.Duration, bool) { return w.arrived, true }
	}, where: queueing},
	{name: "a stamp is that of the latest attempt", checks: is("order"), seeds: 1000, broken: func(r *rules) {
		r.request = func(c *client, node int, q request, done func(answer)) {
			if q.op == core.Acquire && q.place.Waiter != "" {
				now, _ := c.lines.time.At(c.now())
				q.place.Stamp = now.Microseconds()
			}
			c.request(node, q, done)
		}
	}, where: crowd},
	{name: "an attempt that fails does not join the line again", checks: is("order"), seeds: 50, broken: func(r *rules) {
		r.request = func(c *client, node int, q request, done func(answer)) {
			if q.op == core.Release {
				q.place.Stamp = 0
			}
			c.request(node, q, done)
		}
	}, where: crowd},
	{name: "a name is kept for nobody", checks: is("order"), seeds: 20, broken: func(r *rules) {
		serving(r, anyOp, nil, func(s *served, _ rule.Entry) {
			if s.called != "" {
				s.Holder = ""
			}
		})
	}, where: crowd},
	{name: "a name is kept for ever", checks: is("progress", "left over"), seeds: 20, broken: func(r *rules) {
		serving(r, anyOp, nil, func(s *served, _ rule.Entry) {
			if s.called != "" {
				s.Expires = s.now + 1000*time.Hour
			}
		})
	}},
	{name: "a newcomer is granted a name that is kept for another", checks: is("order"), seeds: 20, broken: func(r *rules) {
		serving(r, contract.Acquire, func(s *served) {
			if s.Leased(s.now) && s.Holder.Reserves() {
				s.Holder = ""
				s.skipQueue()
			}
		}, nil)
	}, where: crowd},
	{name: "a waiter that gives up stays in the lines", checks: is("left over"), seeds: 20, broken: func(r *rules) {
		r.leave = (*lines).forget
	}, where: calmWaits},
	{name: "a release leaves its waiter in the line", checks: is("left over"), seeds: 20, broken: func(r *rules) {
		serving(r, contract.Release, func(s *served) {
			if s.q != nil && s.r.Place.Stamp == 0 {
				s.q = sticky{s.q, s.r.Place.Waiter}
			}
		}, nil)
	}},
	{name: "a waiter is never forgotten in its process", seen: "redisson #4064", checks: is("left over"), seeds: 4, broken: func(r *rules) {
		r.forget = func(*lines, *waiter) {}
	}},
	{name: "the line of a name is never forgotten at the node", seen: "redisson #6510", checks: is("left over"), seeds: 200, broken: func(r *rules) {
		serving(r, anyOp, func(s *served) {
			if s.q != nil {
				s.q = endless{s.q, s.now}
			}
		}, nil)
	}},
}

// endless is a queue that is remembered for ever, almost.
type endless struct {
	rule.Queue
	now time.Duration
}

func (q endless) Renew() { q.Queue.(*rule.Operation).QueueExpires = q.now + 1000*time.Hour }

// sticky is a queue that one waiter cannot leave.
type sticky struct {
	rule.Queue
	waiter string
}

func (q sticky) Remove(waiter string) {
	_, in := q.Ahead(waiter)
	q.Queue.Remove(waiter)
	if in && waiter == q.waiter {
		q.Insert(contract.Place{Waiter: waiter, Stamp: 1})
	}
}
