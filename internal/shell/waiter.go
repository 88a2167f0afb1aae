package shell

import (
	"sync"
	"time"

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
	own     core.Retry // behind retry
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
	if op == core.Release && !w.waiting {
		return node.Place{Waiter: w.at.Waiter}
	}
	return w.at
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

func (w *waiter) inQueue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.Waiter != ""
}

// notified takes a node's notification, and reports whether the wait goes on.
func (w *waiter) notified(node int, now time.Duration) bool {
	w.mu.Lock()
	if !w.waiting {
		w.mu.Unlock()
		return false
	}
	w.retry.Notified(node, now)
	w.mu.Unlock()
	w.of.hurried()
	return true
}

// missed tells that a notification may have been lost.
func (w *waiter) missed(now time.Duration) {
	w.mu.Lock()
	w.retry.Missed(now)
	w.mu.Unlock()
	w.of.hurried()
}
