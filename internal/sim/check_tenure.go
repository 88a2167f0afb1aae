package sim

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// How long a lock is held: no longer than its validity and its maximum hold, and
// no shorter without need.

// refused is told of a node's answer to an extension.
func (l *lock) refused(node int, round uint32, s core.Status) {
	if round > l.round {
		l.round, l.refusers = round, 0
	}
	if s == core.Lost && round == l.round {
		l.refusers = l.refusers.With(node)
	}
}

// tooLong is asked when the validity is new.
func (l *lock) tooLong() (violation string) {
	if limit := l.start + l.c.maxHold; l.c.maxHold > 0 && l.until > limit {
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
		return fmt.Sprintf("attempt %d gives up name %d with %v of its validity left, although %d of %d nodes may have its lease",
			l.id, l.name, l.until-c.now(), n-l.refusers.Len(), n)
	}
	return ""
}
