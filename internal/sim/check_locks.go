package sim

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// How long a lock is held: no longer than its validity and its maximum hold, and
// no shorter without need.

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
	if left, adopted := l.a.heldFor(); adopted {
		maxHold = left
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
	n := len(c.w.nodes)
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
	for _, c := range w.clients {
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
