package core_test

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// The nodes of the model of waiting.

// modelQueue is a waiter queue all of whose waiters can be told, and which is never
// forgotten.
type modelQueue struct{ rule.Waiters }

func (*modelQueue) Renew()                {}
func (*modelQueue) Reachable(string) bool { return true }

func (n *lineNode) asQueue() *modelQueue {
	return &modelQueue{append(make(rule.Waiters, 0, maxClients), n.line[:n.length]...)}
}

func (n *lineNode) asEntry() rule.Entry {
	e := rule.Entry{Expires: n.expires, Register: fence.Token(n.register)}
	switch {
	case n.owner > 0 && n.attempt > 0:
		e.Holder = holderName(int(n.owner)-1, n.attempt)
	case n.owner > 0:
		e.Holder = node.Reserved(waiterName(int(n.owner) - 1))
	}
	return e
}

// execute has a node carry out a request, and sends the answer and the call.
func (m *lineModel) execute(s *lineState, i, at int, nth uint8, t *trace) {
	c, n := &s.clients[i], &s.nodes[at]
	msg := c.out[at].take(nth)
	if at >= m.group()-m.down {
		if msg.op != opRelease {
			c.in[at].push(lineMsg{op: msg.op, attempt: msg.attempt, asked: msg.number})
		}
		return
	}
	e, q := n.asEntry(), n.asQueue()
	owner, attempt := n.owner, n.attempt
	r := node.Request{Op: core.Release, TTL: lineTTL, Token: fence.Token(msg.number), Place: place(i, msg.stays)}
	if msg.attempt > 0 {
		r.Holder = holderName(i, msg.attempt)
	}
	what := "leave"
	switch {
	case msg.op == opAcquire:
		r.Op = core.Acquire
	case msg.op == opConfirm:
		r.Op, r.Place = core.Confirm, node.Place{}
	}
	if msg.op != opRelease || msg.attempt > 0 {
		what = r.Op.String()
	}
	reply, called := m.serve(&e, q, s.now, r)
	// Who has the lease now, in few bytes again.
	switch {
	case e.Holder == "":
		owner, attempt = 0, 0
	case called != "":
		owner, attempt = uint8(waiterIndex(called)+1), 0
	case reply.Status == core.Granted && msg.op == opAcquire:
		owner, attempt = uint8(i+1), msg.attempt
	}
	*n = lineNode{owner: owner, attempt: attempt, expires: e.Expires, register: small(e.Register), length: len(q.Waiters)}
	copy(n.line[:], q.Waiters)
	if n.asEntry().Holder != e.Holder {
		panic(fmt.Sprintf("the model says %q, the rule %q", string(n.asEntry().Holder), string(e.Holder)))
	}
	t.say("node %d executes %s's %s: %v%s", at+1, waiterName(i), what, reply.Status, calls(called))

	if called != "" {
		to := &s.clients[waiterIndex(called)]
		if m.apart {
			to.calls[at]++
		} else {
			to.in[at].push(lineMsg{op: opCall})
		}
	}
	if msg.op == opRelease {
		return
	}
	answer := lineMsg{op: msg.op, attempt: msg.attempt, status: reply.Status, number: small(reply.Register)}
	if msg.op == opConfirm {
		answer.asked = msg.number
	}
	if msg.op == opAcquire && reply.Status == core.Held {
		answer.remaining, answer.ahead = reply.Remaining, uint8(reply.Ahead)
	}
	c.in[at].push(answer)
}

func calls(called string) string {
	if called == "" {
		return ""
	}
	return ", and it calls " + called
}

func (msg lineMsg) words() string {
	what := map[lineOp]string{opAcquire: "acquire", opConfirm: "confirm"}[msg.op]
	return fmt.Sprintf("%s of attempt %d %v", what, msg.attempt, msg.status)
}

// serve carries out a request by the rule, or by a broken variant of it.
func (m *lineModel) serve(e *rule.Entry, q *modelQueue, now time.Duration, r node.Request) (node.Answer, string) {
	if p := r.Place; r.Op == core.Release {
		switch {
		case m.broken.silent:
			a, _ := rule.Serve(e, &modelQueue{}, now, r)
			q.Remove(p.Waiter)
			if p.Stamp != 0 {
				q.Insert(p)
			}
			return a, ""
		case m.broken.noRejoin && p.Stamp != 0:
			r.Place = node.Place{}
		case m.broken.callsSelf && p.Stamp != 0:
			q.Remove(p.Waiter)
			q.Insert(p)
			r.Place = node.Place{}
		}
	}
	// The last place is anybody's, in the variant that goes by arrival.
	if n := len(q.Waiters); m.broken.byArrival && r.Place.Stamp != 0 && n > 0 {
		r.Place.Stamp = q.Waiters[n-1].Stamp + 1
	}
	return rule.Serve(e, q, now, r)
}
