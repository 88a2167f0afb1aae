package shell

import (
	"errors"

	"github.com/fenlock/fenlock/internal/core"
)

// This file has an acquisition make its attempts: at once or, while the nodes are behind, when its
// turn comes.

// try makes an attempt, in the state trying, unless the lock was given at the same moment. While
// the nodes are behind, it waits for its turn.
func (a *Acquisition) try() { a.tryWith(false) }

// tryWith makes an attempt whose turn has come already, or not.
func (a *Acquisition) tryWith(turn bool) {
	g := a.client.group
	start := g.Env.Now()
	a.mu.Lock()
	cancelled, closed := a.cancelled, a.isClosed || g.inflight.isClosed()
	number, until, given := a.given.Best(len(g.Peers), start)
	switch {
	case cancelled, closed, given:
	case !turn && a.from == nil && !g.pacing.enter(a, start, a.waits, a.urgent(), a.attempts == 0):
		a.state, a.paced = sleeping, true
		known := a.known.Failed()
		if !a.waits {
			a.known = tooManyAttempts(len(g.Peers))
			a.latest = start + g.NodeTimeout
			a.timer = g.Env.AfterFunc(g.NodeTimeout, a.hurried)
		}
		a.mu.Unlock()
		if a.waits && !known {
			f := tooManyAttempts(len(g.Peers))
			a.unanswered(&f)
		}
		return
	default:
		l := a.attempt()
		l.waits = a.waits
		a.mu.Unlock()
		a.begin(l, start)
		return
	}
	a.mu.Unlock()
	if turn {
		g.pacing.skipped()
	}
	switch {
	case cancelled:
		a.giveUp()
	case closed:
		a.end(Failure{Closed: true})
	default:
		a.take(number, until)
	}
}

// errBehind is why a node was not asked.
var errBehind = errors.New("not asked: the nodes are behind, and the client makes fewer attempts")

// tooManyAttempts is the failure of an attempt that is not made, on so many nodes.
func tooManyAttempts(n int) Failure {
	f := Failure{Reason: core.NoQuorum, Op: core.Acquire}
	for i := range n {
		f.Nodes = append(f.Nodes, NodeFailure{i, errBehind})
	}
	return f
}

// urgent reports whether its attempt begins at once, with the mutex held. Its turn in the queue has
// come, or the nodes have answered the attempt before.
func (a *Acquisition) urgent() bool {
	return a.attempts > 0 && !a.vain || a.waits && a.retry.Invited()
}

// turn implements paced.
func (a *Acquisition) turn() {
	g := a.client.group
	a.mu.Lock()
	waits := a.state == sleeping && a.paced
	if waits {
		a.state, a.paced = trying, false
	}
	a.mu.Unlock()
	if !waits {
		g.pacing.skipped()
		return
	}
	g.Env.Go(func() { a.tryWith(true) })
}

// unanswered implements owner.
func (a *Acquisition) unanswered(why *Failure) {
	a.client.queues.tell(a, a.name, why)
	a.mu.Lock()
	news, l := a.state == trying && a.retry.News(), a.lock
	a.mu.Unlock()
	if news {
		l.hurry()
	}
}
