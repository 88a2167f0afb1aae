package core_test

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// The clients of the model of waiting: what the shell does around core.Attempt
// and core.Retry.

// try begins an attempt.
func (m *queueModel) try(s *queueState, i int, t *trace) {
	c := &s.clients[i]
	// Clients propose the time, so that a new proposal is above all registers.
	proposal := uint8(0)
	for n := range m.group() {
		proposal = max(proposal, s.nodes[n].register+1)
	}
	var action core.Action
	c.core, action = core.NewAttempt(core.Params{Nodes: m.group(), TTL: queueTTL, Start: s.now,
		Proposal: fence.Token(proposal)})
	c.stage, c.said = trying, [maxQueueNodes]core.Refusal{}
	c.attempt++
	c.retry.Begin()
	t.say("%s begins attempt %d", waiterName(i), c.attempt)
	m.carryOut(s, i, c.attempt, action)
}

// carryOut puts the requests of an action on their way.
func (m *queueModel) carryOut(s *queueState, i int, attempt uint8, action core.Action) {
	c := &s.clients[i]
	msg := queueMsg{attempt: attempt, number: small(action.Token)}
	switch action.Op {
	case core.None:
		return
	case core.Acquire:
		msg.op, msg.stays = opAcquire, true
	case core.Confirm:
		msg.op = opConfirm
	case core.Release:
		msg.op, msg.stays, msg.number = opRelease, c.stage == trying || c.stage == waiting, 0
	}
	for n := range m.group() {
		if action.To.Has(n) {
			c.out[n].push(msg)
		}
	}
}

// leave gives up a place, and what is reserved for it, on one node.
func (c *client) leave(n int) { c.out[n].push(queueMsg{op: opRelease}) }

// failed is an attempt that is over: what an older one does with its answers.
var failed = func() core.Attempt {
	a, _ := core.NewAttempt(core.Params{Nodes: maxQueueNodes, TTL: queueTTL})
	a.Cancel()
	return a
}()

// hear has a client take the answer to an acquire or a confirm.
func (m *queueModel) hear(s *queueState, i, n int, msg queueMsg, t *trace) (violation string) {
	c := &s.clients[i]
	a := &c.core
	if msg.attempt != c.attempt {
		old := failed
		a = &old
	}
	reply := core.Reply{Status: msg.status, Register: fence.Token(msg.number)}
	t.say("%s hears from node %d: %s", waiterName(i), n+1, msg.words())
	var action core.Action
	if msg.op == opAcquire {
		if msg.attempt == c.attempt {
			c.said[n] = core.Refusal{Status: reply.Status, Remaining: msg.remaining, Ahead: int(msg.ahead)}
		}
		action = a.OnAcquire(n, reply, s.now)
	} else {
		action = a.OnConfirm(n, fence.Token(msg.asked), reply, s.now)
	}
	m.carryOut(s, i, msg.attempt, action)
	if msg.op == opAcquire && reply.Status != core.Granted && (c.stage == holds || c.stage == served) &&
		!m.broken.lingers {
		c.leave(n) // it may have put the client into the queue
	}
	if c.stage != trying || msg.attempt != c.attempt {
		return ""
	}
	switch c.core.Phase() {
	case core.Holding:
		t.say("%s holds", waiterName(i))
		c.stage, c.since = holds, s.now
		for j := range i {
			if s.ordered && s.clients[j].stage != served {
				return fmt.Sprintf("%s is served before %s", waiterName(i), waiterName(j))
			}
		}
	case core.Over:
		c.stage = waiting
		c.retry.Refused(s.now, c.said[:m.group()], false, m.random[i])
		t.say("%s waits until %v at most", waiterName(i), c.retry.Due())
		m.hurry(s, i, t)
	}
	return ""
}

func (m *queueModel) hearNotification(s *queueState, i, n int, t *trace) {
	c := &s.clients[i]
	t.say("%s hears node %d's notification", waiterName(i), n+1)
	if c.stage == holds || c.stage == served {
		return // it gives up what is reserved for it with the lock
	}
	c.retry.Notified(n, s.now)
	if m.broken.impatient && c.stage == waiting {
		m.try(s, i, t)
		return
	}
	m.hurry(s, i, t)
}

// hurry tries at once if it is time.
func (m *queueModel) hurry(s *queueState, i int, t *trace) {
	if c := &s.clients[i]; c.stage == waiting && c.retry.Due() <= s.now {
		m.try(s, i, t)
	}
}
