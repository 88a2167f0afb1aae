package cas

import (
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// How often a client that has to ask for its notices does so. A waiter that is next has to hear of
// it soon, and has to within rule.ReservationTTL; one that is not need not ask at all before those
// ahead of it have had their turns, each of which takes two writes.
const (
	shortestPause = time.Millisecond
	longestPause  = 800 * time.Millisecond // of one that is next, or the one after that
	idlePause     = 2500 * time.Millisecond
	patientPart   = 8 // an eighth of what it has waited already is lost by asking late
	shortestTurn  = 2 * time.Millisecond
	mostStripes   = 64 // that are named to a store
)

// line is what is known of the waiters of a client: where they wait, and how many are before them.
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

// moved is told that a waiter in a stripe was notified.
func (l *line) moved(stripe int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if w.stripe == stripe {
			w.moved, w.ahead = time.Now(), max(w.ahead-1, 0)
		}
	}
}

// stripes lists where the client waits, a few of them, in order.
func (l *line) stripes() (all []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiters {
		if len(all) < mostStripes {
			all = append(all, w.stripe)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// pause returns for how long nothing need be asked.
func (l *line) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause, now := idlePause, time.Now()
	for waiter, w := range l.waiters {
		if now.Sub(w.asked) > rule.QueueExpiry {
			delete(l.waiters, waiter) // no queue has it any more
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

// lines are the lines of a node, by client.
type lines struct {
	mu sync.Mutex
	of map[string]*line
}

// add makes the line of a client.
func (l *lines) add(client string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := &line{changed: make(chan struct{}, 1)}
	l.of[client] = own
	return own
}

// heardOf is told of every answer: which waiter waits, and how many are before it. Nil lines hear
// nothing.
func (l *lines) heardOf(r node.Request, a node.Answer) {
	client := engine.ClientOf(r.Place.Waiter)
	if l == nil || client == "" {
		return
	}
	l.mu.Lock()
	own := l.of[client]
	l.mu.Unlock()
	switch {
	case own == nil:
	case r.Op == node.Acquire && a.Status == node.Held:
		own.waits(r.Place.Waiter, node.Stripe(r.Name), a.Ahead)
	case r.Op == node.Acquire && a.Status == node.Granted, r.Op == node.Release && r.Place.Stamp == 0:
		own.leaves(r.Place.Waiter)
	}
}
