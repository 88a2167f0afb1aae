package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// What the checkers are told of a lock, and what is checked of it here. A lock is held no longer
// than its validity and its maximum hold, and no shorter without need. Waiting is in order, and
// costs little.

// acquired tells the checkers that the lock is held.
func (l *lock) acquired() {
	w := l.c.w
	w.result.Acquired++
	token, until := l.token(), l.c.clock.truth(l.until)
	w.note("attempt %[1]d holds name %[2]d with token %[3]d until %[4]d", l.id, l.name, uint64(token), uint64(until))
	l.c.held = append(l.c.held, l)
	l.c.healing.Begins(l.id, l.began)
	begins, acquired := w.validity.Begins, w.tokens.Acquired
	if l.a.from != nil {
		w.result.Adopted++
		acquired = func(name, id int, token fence.Token, began, _ time.Duration) string {
			return w.tokens.Adopted(name, id, l.a.from.id, token, began)
		}
		if l.a.shared {
			begins = w.validity.BeginsShared
		}
	} else if l.a.shared {
		begins, acquired = w.validity.BeginsShared, w.tokens.AcquiredShared
		w.result.Shared++
	}
	w.check(steadyClocks|nothingForced, "validity", begins(l.name, l.id, token, w.now, until))
	w.check(registersSurvive, "tokens", acquired(l.name, l.id, token, l.asked, w.now))
	w.check(always, "tenure", l.tooLong())
	w.check(always, "order", l.overtook())
}

// hasEnded tells the checkers that its context has ended.
func (l *lock) hasEnded() {
	w := l.c.w
	w.note("attempt %[1]d does not hold name %[2]d any more, reason %[3]d", l.id, l.name, uint64(l.attempt.Reason()), 0)
	w.check(always, "tenure", l.endedWrongly())
	w.check(steadyClocks|nothingForced, "healing", l.lostWrongly())
	w.validity.Ends(l.name, l.id)
	l.c.held = slices.DeleteFunc(l.c.held, func(other *lock) bool { return other == l })
}

// refused is told of a node's answer to an extension, and whether it need not count. It need not if
// the lease is not there, or began again past the token.
func (l *lock) refused(node int, round uint32, refuses bool) {
	if round > l.round {
		l.round, l.refusers = round, 0
	}
	if refuses && round == l.round {
		l.refusers = l.refusers.With(node)
	}
}

// tooLong is asked when the validity is new.
func (l *lock) tooLong() (violation string) {
	maxHold := l.c.maxHold
	if l.a.from != nil {
		maxHold = l.a.maxHold
	}
	if limit := l.start + maxHold; maxHold > 0 && l.until > limit {
		return fmt.Sprintf("attempt %d holds name %d for %v beyond its maximum hold", l.id, l.name, l.until-limit)
	}
	return ""
}

// endedWrongly is asked when the lock's context ends. Timers of a client that was
// paused go off within a fifth of a millisecond after the pause.
func (l *lock) endedWrongly() (violation string) {
	c := l.c
	n := len(c.nodes)
	end := max(c.clock.truth(l.until), c.pausedUntil)
	switch {
	case c.w.rests(steadyClocks) && c.w.now > end+time.Millisecond:
		return fmt.Sprintf("the context of attempt %d on name %d outlives its validity by %v", l.id, l.name, c.w.now-end)
	case !l.released && c.now() < l.until && n-l.refusers.Len() >= core.Quorum(n):
		return fmt.Sprintf(
			"attempt %d gives up name %d with %v of its validity left, although %d of %d nodes may have its lease",
			l.id, l.name, l.until-c.now(), n-l.refusers.Len(), n)
	}
	return ""
}

// moment is the difference between two arrivals that the order of service has to respect, where the
// nodes' clocks agree. A client's clock may drift by half a percent in a minute and a half. The
// second client needs a few round trips until it is in all queues.
const moment = time.Second

// overtook is asked when a lock is acquired: is there a waiter that came long before? Nothing is
// promised but where nothing goes wrong, and of waiters of one process only the first one is in the
// queues.
func (l *lock) overtook() (violation string) {
	w, came := l.c.w, l.began
	if !w.profile.calm() || !w.profile.agree || w.profile.users > 1 || w.profile.noQueues > 0 {
		return ""
	}
	if l.a.waits {
		came = l.a.came
	}
	for _, c := range *l.c.all {
		for _, a := range c.waiting[l.name] {
			if a.shared && l.a.shared {
				continue // both are let in, in any order
			}
			if a.lock != l && !a.gaveUp && a.came+moment < came {
				return fmt.Sprintf("attempt %d of client %d acquires name %d, for which client %d has waited %v longer",
					l.id, l.c.id, l.name, c.id, came-a.came)
			}
		}
	}
	return ""
}

// tooOften is asked when an acquisition ends: waiting must not be polling. Where nothing goes wrong
// a waiter tries when it comes, again once it can be notified, and when it is notified. It also
// tries when leases should have ended, which is a third of the shortest TTL later at least; and
// where nodes gave it the name with different numbers, since others acquire names of the same
// register at that moment, which may happen twice.
func (a *acquisition) tooOften() (violation string) {
	w := a.c.w
	few, pause := 20, 5*time.Millisecond
	if w.profile.calm() && w.profile.noQueues == 0 {
		few, pause = 9, 50*time.Millisecond
	}
	if waited := w.now - a.came; a.tries > few+int(waited/pause) {
		return fmt.Sprintf("client %d has tried %d times in %v to acquire name %d", a.c.id, a.tries, waited, a.name)
	}
	return ""
}

// lostWrongly is asked when the lock's context ends.
func (l *lock) lostWrongly() (violation string) {
	c, why := l.c, l.attempt.Reason()
	lost := !l.released && !c.closing && (why == core.Expired || why == core.Taken) && l.attempt.Until() != l.brief
	if lost && c.w.profile.overload {
		c.w.violate("overload", fmt.Sprintf("attempt %d of client %d loses name %d, and no more is wrong than load",
			l.id, c.id, l.name))
	}
	if violation = c.healing.Ends(l.id, lost, c.w.now); violation != "" {
		violation = fmt.Sprintf("client %d, name %d: %s", c.id, l.name, violation)
	}
	return violation
}
