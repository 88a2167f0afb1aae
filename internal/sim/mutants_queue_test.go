package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What can go wrong in waiting: no waiter wakes up, all do, the wrong one does, a waiter stays in
// the queue.

var queueMutants = []mutant{
	{name: "notifications are lost for ever, and nobody looks again", seen: "redisson #1763", checks: is("progress"),
		seeds: 4, broken: all(silent, retrying(func(b *brokenRetry) {
			b.due = func() time.Duration { return 1 << 62 }
		}))},
	{name: "a release notifies nobody, and nobody looks again soon", seen: "redisson #1763", checks: is("progress"),
		seeds: 4, broken: all(silent, retrying(func(b *brokenRetry) {
			b.due = func() time.Duration { return b.Retry.Due() + 10*core.Backstop }
		}))},
	{name: "a notification that comes during an attempt is missed, and nobody looks again", seen: "valkeylock",
		checks: is("progress"), seeds: 20, broken: retrying(func(b *brokenRetry) {
			var due time.Duration // by a notification
			b.notified = func(node int, now time.Duration) {
				if b.asleep {
					b.Retry.Notified(node, now)
					due = b.Retry.Due()
				}
			}
			b.due = func() time.Duration {
				if b.Retry.Due() == due {
					return due
				}
				return b.Retry.Due() + 10*core.Backstop
			}
		})},
	{name: "everybody wakes up at each release", seen: "rueidislock", checks: is("cost"), seeds: 20,
		broken: breaking(func(l *lock, b *broken) {
			b.startRelease = func(now time.Duration) core.Action {
				w := l.c.w
				for _, c := range *l.c.all {
					if len(c.waiting[l.name]) > 0 {
						c.at(w.now+w.profile.trip, func() { c.notified(0, "") })
					}
				}
				return b.Attempt.StartRelease(now)
			}
		}), where: rush},
	{name: "a waiter tries again at once", seen: "rueidis #602", checks: is("cost"), seeds: 4,
		broken: retrying(func(b *brokenRetry) { b.due = func() time.Duration { return 0 } })},
	{name: "who came last is served first", checks: is("order"), seeds: 20,
		broken: telling(func(honest shell.NodeTime, now time.Duration) (time.Duration, bool) {
			at, known := honest.At(now)
			return 1000*time.Hour - at, known
		}), where: queueing},
	{name: "stamps come from the clients' own clocks", checks: is("order"), seeds: 20,
		broken: telling(func(_ shell.NodeTime, now time.Duration) (time.Duration, bool) {
			return now, true
		}), where: queueing},
	{name: "a stamp is that of the latest attempt", checks: is("order"), seeds: 1000,
		broken: asking(func(c *process, q *node.Request) {
			if q.Op == core.Acquire && q.Place.Waiter != "" {
				q.Place.Stamp = c.nodes[0].local().Microseconds()
			}
		}), where: crowd},
	{name: "an attempt that fails does not enter the queue again", checks: is("order"), seeds: 50,
		broken: asking(func(_ *process, q *node.Request) {
			if q.Op == core.Release {
				q.Place.Stamp = 0
			}
		}), where: crowd},
	{name: "a name is reserved for nobody", checks: is("order"), seeds: 20,
		broken: serving(anyOp, nil, func(s *served) {
			if len(s.notified) > 0 {
				s.Holder = ""
			}
		}), where: crowd},
	{name: "a name is reserved for ever", checks: is("progress", "left over"), seeds: 20,
		broken: serving(anyOp, nil, func(s *served) {
			if len(s.notified) > 0 {
				s.Expires = s.now + 1000*time.Hour
			}
		})},
	{name: "a newcomer is granted a name that is reserved for another", checks: is("order"), seeds: 20,
		broken: serving(node.Acquire, func(s *served) {
			if s.Leased(s.now) && s.Holder.Reserves() {
				s.Holder = ""
				s.skipQueue()
			}
		}, nil), where: crowd},
	{name: "a waiter that gives up stays in the queues", checks: is("left over"), seeds: 20,
		broken: requesting(func(c *process, to int, q node.Request, done func(node.Answer)) {
			if q.Op == core.Release && q.Holder == "" { // it is told that all have heard
				c.spawn(func() { done(node.Answer{Status: core.Lost}) })
				return
			}
			c.request(to, q, done)
		}), where: calmWaits},
	{name: "a release leaves its waiter in the queue", checks: is("left over"), seeds: 20,
		broken: serving(node.Release, func(s *served) {
			if s.q != nil && s.r.Place.Stamp == 0 {
				s.q = sticky{s.q, s.r.Place.Waiter}
			}
		}, nil)},
	{name: "a waiter is never forgotten in its process", seen: "redisson #4064", checks: is("left over"), seeds: 4,
		broken: func(r *rules) {
			r.timers = func(_ *process, d time.Duration) bool { return d != rule.QueueExpiry }
		}},
	{name: "the queue of a name is never forgotten at the node", seen: "redisson #6510", checks: is("left over"),
		seeds: 200, broken: serving(anyOp, func(s *served) {
			if s.q != nil {
				s.q = endless{s.q, s.now}
			}
		}, nil)},
}

// brokenRetry is a waiter's retry of which a test answers some questions wrongly.
type brokenRetry struct {
	shell.Retry
	asleep   bool // no attempt is under way
	due      func() time.Duration
	notified func(node int, now time.Duration)
}

func retrying(f func(b *brokenRetry)) func(r *rules) {
	return func(r *rules) {
		r.retry = func(honest shell.Retry) shell.Retry {
			b := &brokenRetry{Retry: honest, due: honest.Due, notified: honest.Notified}
			f(b)
			return b
		}
	}
}

func (b *brokenRetry) Begin() {
	b.asleep = false
	b.Retry.Begin()
}

func (b *brokenRetry) Refused(now time.Duration, said []core.Refusal, polls bool, random float64) {
	b.asleep = true
	b.Retry.Refused(now, said, polls, random)
}

func (b *brokenRetry) Due() time.Duration                   { return b.due() }
func (b *brokenRetry) Notified(node int, now time.Duration) { b.notified(node, now) }

// brokenTime is a wrong time of the nodes.
type brokenTime struct {
	shell.NodeTime
	at func(honest shell.NodeTime, now time.Duration) (time.Duration, bool)
}

func (b brokenTime) At(now time.Duration) (time.Duration, bool) { return b.at(b.NodeTime, now) }

func telling(at func(honest shell.NodeTime, now time.Duration) (time.Duration, bool)) func(r *rules) {
	return func(r *rules) {
		r.nodeTime = func(honest shell.NodeTime) shell.NodeTime { return brokenTime{honest, at} }
	}
}

// silent nodes send no notification.
func silent(r *rules) { r.notifyLost = func() bool { return true } }

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
		q.Insert(node.Place{Waiter: waiter, Stamp: 1})
	}
}
