package fenlock

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// waiter is one call of Acquire.
type waiter struct {
	locker  *Locker
	name    string
	ctx     context.Context
	arrived time.Duration // on the locker's clock
	first   chan struct{} // closed when it is the first of its queue; nil if it was at once

	lock   Lock   // of its first attempt, which mostly is the only one
	own    queue  // of its name, if it came first; the Locker's queues guard it
	number uint64 // among those in line; the Locker's lines guard it

	mu      sync.Mutex // guards the rest
	place   node.Place // on the nodes, once it is in line
	waiting bool       // Acquire has not returned
	known   error      // why it waits, as the observer was told
	turn    core.Turn
	wake    chan struct{} // has room for one: something changed
}

func newWaiter(ctx context.Context, l *Locker, name string) *waiter {
	return &waiter{locker: l, name: name, ctx: ctx, waiting: true, turn: core.NewTurn(len(l.config.Nodes))}
}

// request is the place that goes with a request of an attempt. Once the wait is
// over a release tells the node to forget the waiter. An acquire that is only
// sent then, because the process was busy, has the place all the same: the name
// may be kept for it. If that puts it into the line again, see left.
func (w *waiter) request(op core.Op) node.Place {
	if w == nil || op != core.Acquire && op != core.Release {
		return node.Place{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if op == core.Release && !w.waiting {
		return node.Place{Waiter: w.place.Waiter}
	}
	return w.place
}

// begin tells that an attempt starts.
func (w *waiter) begin(now time.Duration) {
	if w.arrived == 0 {
		w.arrived = now
	}
	if s := w.locker.lines; s != nil && s.ready() {
		s.enlist(w)
	}
	w.mu.Lock()
	w.turn.Begin()
	w.mu.Unlock()
}

// called takes a node's call, and reports whether the wait goes on.
func (w *waiter) called(n int, now time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.waiting {
		return false
	}
	before := w.turn.Due()
	w.turn.Called(n, now)
	if w.turn.Due() < before {
		w.signal()
	}
	return true
}

// missed tells that a call may have been lost.
func (w *waiter) missed(now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn.Missed(now)
	w.signal()
}

// stop ends the wait: from now on, requests tell the nodes to forget it.
func (w *waiter) stop() {
	w.mu.Lock()
	w.waiting = false
	w.mu.Unlock()
}

// left reports whether a node that was told of a place has to be told that the
// wait is over since.
func (w *waiter) left(told node.Place) bool {
	if told.Stamp == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.waiting
}

func (w *waiter) inLine() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.place.Waiter != ""
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it was told, or is not asleep
	}
}

// wait returns nil when it is time to try again, after an attempt that failed.
// The error is ErrClosed or the context's.
func (w *waiter) wait(said []core.Refusal) error {
	l, random := w.locker, rand.Float64()
	if l.lines == nil {
		return w.sleep(core.PollDelay(said, random))
	}
	if !w.inLine() {
		// Try again once calls can come: the lock may have become free before.
		l.lines.listen(w.ctx)
		if l.lines.enlist(w) {
			return w.ctx.Err()
		}
		return w.sleep(core.PollDelay(said, random)) // no node has told its time
	}
	w.mu.Lock()
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.turn.Refused(l.now(), said, random)
	w.mu.Unlock()
	latest := time.Duration(math.MaxInt64)
	if !l.lines.audible() {
		latest = l.now() + core.PollDelay(said, random)
	}
	for {
		w.mu.Lock()
		due := min(w.turn.Due(), latest)
		w.mu.Unlock()
		left := due - l.now()
		if left <= 0 {
			return w.ctx.Err()
		}
		if err := w.sleep(left); err != nil {
			return err
		}
	}
}

// sleep returns nil after d or when something has changed, and ErrClosed or
// ctx's error when that comes first.
func (w *waiter) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.wake:
	case <-w.locker.requests.closing:
		return ErrClosed
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	return nil
}

// tell tells the observer why the waiter waits, if that is new.
func (w *waiter) tell(why error) {
	if why == nil {
		return
	}
	w.mu.Lock()
	before, gone := w.known, !w.waiting
	w.known = why
	w.mu.Unlock()
	if gone {
		return
	}
	w.locker.observeWaiting(w.ctx, w.name, why, before)
}

// end is called when Acquire returns. A waiter that got no lock leaves the
// lines; one that did leaves those that are left with the lock's release.
func (w *waiter) end(lock *Lock) {
	w.stop()
	w.locker.queues.leave(w)
	if !w.inLine() {
		return
	}
	if lock == nil {
		w.locker.lines.leaveAll(w)
	} else {
		w.locker.lines.forget(w)
	}
}
