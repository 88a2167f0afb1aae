package sim

import (
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rebuild"
	"github.com/fenlock/fenlock/internal/rule"
)

// rules are the calls from the simulated world into the shipped code. A test
// replaces one by something broken, to see that a checker notices.
type rules struct {
	// The client's side.
	start       func(p core.Params) (core.Attempt, core.Action)
	onAcquire   func(l *lock, node int, r core.Reply, now time.Duration) core.Action
	onConfirm   func(l *lock, node int, asked fence.Token, r core.Reply, now time.Duration) core.Action
	onExtend    func(l *lock, node int, round uint32, r core.Reply, now time.Duration) core.Action
	tick        func(l *lock, now time.Duration)
	startExtend func(l *lock, now time.Duration) core.Action
	due         func(t *core.Turn) time.Duration
	forget      func(s *lines, w *waiter)

	// A node's side.
	acquire    func(e *rule.Entry, now time.Duration, holder string, ttl time.Duration, proposal fence.Token) core.Reply
	confirm    func(e *rule.Entry, now time.Duration, holder string, token fence.Token) core.Reply
	extend     func(e *rule.Entry, now time.Duration, holder string, ttl time.Duration, token fence.Token) core.Reply
	release    func(e *rule.Entry, l *rule.Line, now time.Duration, holder string, p rule.Place, reachable func(string) bool) (core.Reply, string)
	quarantine func(maxTTL time.Duration) time.Duration
	merge      func(n int, self rebuild.Self, answers []*fenlock.Registers) (rebuild.Result, error)
	callLost   func() bool

	guardOff bool
}

// shipped are the rules as they are.
func shipped() rules {
	return rules{
		start: core.NewAttempt,
		onAcquire: func(l *lock, node int, r core.Reply, now time.Duration) core.Action {
			return l.attempt.OnAcquire(node, r, now)
		},
		onConfirm: func(l *lock, node int, asked fence.Token, r core.Reply, now time.Duration) core.Action {
			return l.attempt.OnConfirm(node, asked, r, now)
		},
		onExtend: func(l *lock, node int, round uint32, r core.Reply, now time.Duration) core.Action {
			return l.attempt.OnExtend(node, round, r, now)
		},
		tick:        func(l *lock, now time.Duration) { l.attempt.Tick(now) },
		startExtend: func(l *lock, now time.Duration) core.Action { return l.attempt.StartExtend(now) },
		due:         (*core.Turn).Due,
		forget:      (*lines).forget,
		acquire:     rule.Acquire,
		confirm:     rule.Confirm,
		extend:      rule.Extend,
		release:     rule.ReleaseInLine,
		quarantine:  func(maxTTL time.Duration) time.Duration { return maxTTL + core.Drift(maxTTL) },
		merge:       rebuild.Merge,
		callLost:    func() bool { return false },
	}
}
