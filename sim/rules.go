package sim

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	contract "github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

// rules are the calls from the simulated world into the shipped code, and those
// of what the shell and an engine do around it that can be done wrongly. A test
// replaces one by something broken, to see that a checker notices.
type rules struct {
	// The life of a lock.
	start        func(p core.Params) (core.Attempt, core.Action)
	onAcquire    func(l *lock, node int, r core.Reply, now time.Duration) core.Action
	onConfirm    func(l *lock, node int, asked fence.Token, r core.Reply, now time.Duration) core.Action
	onExtend     func(l *lock, node int, round uint32, r core.Reply, now time.Duration) core.Action
	tick         func(l *lock, now time.Duration)
	startExtend  func(l *lock, now time.Duration) core.Action
	startRelease func(l *lock, now time.Duration) core.Action
	cancel       func(l *lock) core.Action

	// Its requests.
	holder  func(c *client, attempt int) contract.Holder
	lease   func(c *client) time.Duration // what is asked for
	timeout func(c *client, op core.Op) time.Duration
	request func(c *client, node int, r request, done func(answer))

	// A waiter.
	due    func(t *core.Turn) time.Duration
	called func(w *waiter, node int, now time.Duration)
	stamp  func(s *lines, w *waiter) (stamp time.Duration, known bool)
	leave  func(s *lines, w *waiter)
	forget func(s *lines, w *waiter)

	// A node.
	serve      func(e *rule.Entry, q rule.Queue, now time.Duration, r contract.Request) (contract.Answer, string)
	quarantine func(maxTTL time.Duration) time.Duration
	merge      func(n int, self rebuild.Self, answers []*contract.Registers) (rebuild.Result, error)
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
		tick:         func(l *lock, now time.Duration) { l.attempt.Tick(now) },
		startExtend:  func(l *lock, now time.Duration) core.Action { return l.attempt.StartExtend(now) },
		startRelease: func(l *lock, now time.Duration) core.Action { return l.attempt.StartRelease(now) },
		cancel:       func(l *lock) core.Action { return l.attempt.Cancel() },

		holder:  func(_ *client, attempt int) contract.Holder { return contract.Holder(fmt.Sprint("attempt ", attempt)) },
		lease:   func(c *client) time.Duration { return c.ttl },
		timeout: func(c *client, _ core.Op) time.Duration { return c.nodeTimeout },
		request: (*client).request,

		due:    (*core.Turn).Due,
		called: func(w *waiter, node int, now time.Duration) { w.turn.Called(node, now) },
		stamp:  func(s *lines, w *waiter) (time.Duration, bool) { return s.time.At(w.arrived) },
		leave:  (*lines).leaveAll,
		forget: (*lines).forget,

		serve:      rule.Serve,
		quarantine: func(maxTTL time.Duration) time.Duration { return maxTTL + rule.Drift(maxTTL) },
		merge:      rebuild.Merge,
		callLost:   func() bool { return false },
	}
}
