package fenlock

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// SetClock makes a Locker that has not been used yet count time by now, so that
// under testing/synctest its clock is the one that its timers go by.
func SetClock(l *Locker, now func() time.Duration) { l.now = now }

// SetSeen makes a Locker propose more than token, as if its wall clock were far
// ahead.
func SetSeen(l *Locker, token fence.Token) { l.observe(token) }

// InLine returns how many waiters a Locker remembers.
func InLine(l *Locker) int {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	return len(l.lines.waiters)
}

// UnderWay returns how many fanouts to Starters have not ended.
func UnderWay(l *Locker) (n int) {
	l.deadlines.mu.Lock()
	defer l.deadlines.mu.Unlock()
	for f := l.deadlines.first; f != nil; f = f.next {
		n++
	}
	return n
}

// Ticking returns how many locks a Locker is to wake.
func Ticking(l *Locker) int {
	l.ticks.mu.Lock()
	defer l.ticks.mu.Unlock()
	return len(l.ticks.held)
}
