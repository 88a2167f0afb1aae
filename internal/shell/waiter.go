package shell

import (
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// waiter is one caller that waits: its place in the nodes' queues, the same on all of
// them, and when it tries again. The zero waiter does not wait.
type waiter struct {
	name   string
	label  string // for people who look at the queue
	shared bool   // it wants to share the name
	of     hurried
	number uint64 // among those in the queues; the waiters' mutex guards it

	mu      sync.Mutex // guards the rest, and the caller that it is a part of
	arrived time.Duration
	at      node.Place // once it is in the queues
	waiting bool
	retry   Retry
	own     core.Retry  // behind retry
	given   *core.Given // once a node has refused, or given something: most locks are not given
	away    core.Set    // nodes that have not answered yet to what is given back to them,
	stuck   core.Set    // of these, who has refused with it meanwhile,
	asked   core.Set    // and who was asked again since it has answered
	parted  bool        // its lock has ended
	shown   bool        // a node may have its place
}

// hurried is told, without the mutex, that it may be time to try again.
type hurried interface{ hurried() }

// place is what goes with a request of an attempt. Once the wait is over a release
// tells the node to forget the waiter.
func (w *waiter) place(op core.Op) node.Place {
	if op != core.Acquire && op != core.Release {
		return node.Place{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case op == core.Acquire || w.waiting:
		w.shown = w.shown || w.at.Waiter != ""
		return w.at
	case w.given.Taken() != 0 && !w.parted:
		return node.Place{} // it would give its lock back
	}
	return node.Place{Waiter: w.at.Waiter}
}

// stop ends the wait: from now on, requests tell the nodes to forget it.
func (w *waiter) stop() {
	w.mu.Lock()
	w.waiting = false
	w.mu.Unlock()
}

func (w *waiter) isWaiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

// isShown reports whether a node may have its place.
func (w *waiter) isShown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown
}

func (w *waiter) inQueue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.Waiter != ""
}

// gifts is what it is given, with the mutex held.
func (w *waiter) gifts() *core.Given {
	if w.given == nil {
		w.given = new(core.Given)
	}
	return w.given
}

// notified takes a node's notice, and reports whether the wait goes on.
func (w *waiter) notified(i int, n node.Notice, now time.Duration) bool {
	w.mu.Lock()
	if !w.waiting {
		w.mu.Unlock()
		return false
	}
	if n.Number != 0 {
		w.gifts().Told(i, n.Number, n.Clock, now)
	}
	w.retry.Notified(i, now)
	w.mu.Unlock()
	w.of.hurried()
	return true
}

// refused takes what a node said that has the name leased to a holder.
func (w *waiter) refused(i int, asked, now time.Duration, a node.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Clock <= 0 {
		return // it keeps no queue
	}
	switch news := w.gifts().Refused(i, asked, a.Clock, a.Given, a.Remaining); {
	case a.Given == 0:
	case news:
		w.retry.Notified(i, now)
	case w.away.Has(i):
		w.stuck = w.stuck.With(i) // to ask again before it has heard of that would be in vain
	case !w.asked.Has(i):
		w.asked = w.asked.With(i)
		w.retry.Notified(i, now)
	}
}

// back forgets what a node has given, as that is being given back, and returns it, 0 for nothing.
func (w *waiter) back(i int) fence.Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	number := w.given.Back(i)
	if number != 0 {
		w.away, w.stuck, w.asked = w.away.With(i), w.stuck.Without(i), w.asked.Without(i)
	}
	return number
}

// returned takes that a node has answered to what was given back. A node that refused with that is
// asked again, once: it does not notify the waiter that gave back. If it never answers, the lease
// ends by itself. The answer to an earlier number says nothing about the latest.
func (w *waiter) returned(i int, number fence.Token, now time.Duration) {
	w.mu.Lock()
	if number != w.given.WentBack(i) {
		w.mu.Unlock()
		return
	}
	stuck := w.waiting && w.stuck.Has(i)
	w.away, w.stuck = w.away.Without(i), w.stuck.Without(i)
	if stuck {
		w.asked = w.asked.With(i)
		w.retry.Notified(i, now)
	}
	w.mu.Unlock()
	if stuck {
		w.of.hurried()
	}
}

// parting is the request by which it leaves a queue. With an empty Holder it also returns what was
// given to the waiter. As long as that is its lock, the Holder is one that returns nothing.
func (w *waiter) parting() node.Request {
	parts := w.parts()
	w.mu.Lock()
	defer w.mu.Unlock()
	r := node.Request{Op: node.Release, Name: w.name, Place: node.Place{Waiter: w.at.Waiter}}
	if !parts {
		r.Holder = node.Given(w.at.Waiter, 0)
	}
	return r
}

// returning is the request by which it returns what was given to it with a number.
func (w *waiter) returning(number fence.Token) node.Request {
	at := w.place(core.Release)
	w.mu.Lock()
	defer w.mu.Unlock()
	return node.Request{Op: node.Release, Name: w.name, Holder: node.Given(w.at.Waiter, number), Place: at}
}

// parts reports whether it has no lock that was given to it (any more).
func (w *waiter) parts() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.given.Taken() == 0 || w.parted
}

// part tells that its lock has ended, and reports whether that had been given to it. One that goes
// on in another process is still what was given to this waiter.
func (w *waiter) part(goesOn bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parted = !goesOn
	return w.given.Taken() != 0
}

// holds reports whether what was given with a number is its lock.
func (w *waiter) holds(number fence.Token) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.given.Taken() == number
}

// missed tells that a notification may have been lost.
func (w *waiter) missed(now time.Duration) {
	w.mu.Lock()
	w.retry.Missed(now)
	w.mu.Unlock()
	w.of.hurried()
}
