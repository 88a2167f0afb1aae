package mysqlnode

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/rule"
)

// How often a listener asks. A waiter that is next has to hear of it soon, and has to
// within rule.ReservationTTL; one that is not need not ask at all before those ahead of it
// have had their turns, each of which takes two commits.
const (
	shortestPause = 3 * time.Millisecond
	longestPause  = 800 * time.Millisecond // of one that is next, or the one after that
	idlePause     = 2500 * time.Millisecond
	patientPart   = 8 // an eighth of what it has waited already is lost by asking late
	shortestTurn  = 2 * time.Millisecond
	mostStripes   = 64 // that are named in a statement
)

// line is what a listener knows of the waiters of its client: where they wait, and how many
// are before them.
type line struct {
	mu      sync.Mutex
	waiters map[string]*waiting
	changed chan struct{} // has one element when the next pause may be shorter
}

type waiting struct {
	stripe int
	ahead  int
	moved  time.Time // when something happened to it: it came, or others had their turn
	asked  time.Time // when it has asked last
}

// waits is told of a waiter that was refused.
func (l *line) waits(waiter string, stripe, ahead int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	w := l.waiters[waiter]
	sooner := w == nil || ahead < w.ahead
	if w == nil {
		if l.waiters == nil {
			l.waiters = make(map[string]*waiting)
		}
		w = &waiting{moved: now}
		l.waiters[waiter] = w
	}
	if sooner {
		w.moved = now
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
	w.stripe, w.ahead, w.asked = stripe, ahead, now
}

// leaves is told of a waiter that waits no more.
func (l *line) leaves(waiter string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, waiter)
}

// moved is told that somebody in a stripe was notified.
func (l *line) moved(stripe int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if w.stripe == stripe {
			w.moved, w.ahead = time.Now(), max(w.ahead-1, 0)
		}
	}
}

// stripes lists where the client waits, a few of them.
func (l *line) stripes() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []int
	for _, w := range l.waiters {
		if len(all) < mostStripes {
			all = append(all, w.stripe)
		}
	}
	slices.Sort(all)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(all)), " ", ","), "[]")
}

// pause returns for how long nothing need be asked.
func (l *line) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause, now := idlePause, time.Now()
	for waiter, w := range l.waiters {
		if now.Sub(w.asked) > rule.QueueExpiry {
			delete(l.waiters, waiter) // nobody knows it any more
			continue
		}
		longest := longestPause
		if w.ahead > 1 {
			longest = idlePause
		}
		// Of a queue that moves, the turns of those ahead are waited for.
		own := max(now.Sub(w.moved)/patientPart, time.Duration(w.ahead)*shortestTurn)
		pause = min(pause, max(min(own, longest), shortestPause))
	}
	return pause
}
