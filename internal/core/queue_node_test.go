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

func (n *queueNode) asQueue() *modelQueue {
	return &modelQueue{append(make(rule.Waiters, 0, maxClients), n.waiters[:n.length]...)}
}

func (n *queueNode) asEntry() rule.Entry {
	e := rule.Entry{Expires: n.expires, Register: fence.Token(n.register)}
	switch {
	case n.owner > 0 && n.attempt > 0:
		e.Holder = holderName(int(n.owner)-1, n.attempt)
	case n.owner > 0:
		e.Holder = node.Reserved(waiterName(int(n.owner) - 1))
	}
	return e
}

// execute has a node carry out a request, and sends the answer and the notification.
func (m *queueModel) execute(s *queueState, i, at int, nth uint8, t *trace) {
	c, n := &s.clients[i], &s.nodes[at]
	msg := c.out[at].take(nth)
	if at >= m.group()-m.down {
		if msg.op != opRelease {
			c.in[at].push(queueMsg{op: msg.op, attempt: msg.attempt, asked: msg.number})
		}
		return
	}
	e, q := n.asEntry(), n.asQueue()
	owner, attempt := n.owner, n.attempt
	r := node.Request{Op: core.Release, TTL: queueTTL, Token: fence.Token(msg.number), Place: place(i, msg.stays)}
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
	reply, notified := m.serve(&e, q, s.now, r)
	// The holder of the lease now, in few bytes again.
	switch {
	case e.Holder == "":
		owner, attempt = 0, 0
	case notified != "":
		owner, attempt = uint8(waiterIndex(notified)+1), 0
	case reply.Status == core.Granted && msg.op == opAcquire:
		owner, attempt = uint8(i+1), msg.attempt
	}
	*n = queueNode{owner: owner, attempt: attempt, expires: e.Expires, register: small(e.Register), length: len(q.Waiters)}
	copy(n.waiters[:], q.Waiters)
	if n.asEntry().Holder != e.Holder {
		panic(fmt.Sprintf("the model says %q, the rule %q", string(n.asEntry().Holder), string(e.Holder)))
	}
	t.say("node %d executes %s's %s: %v%s", at+1, waiterName(i), what, reply.Status, notifies(notified))

	if notified != "" {
		to := &s.clients[waiterIndex(notified)]
		if m.apart {
			to.notifications[at]++
		} else {
			to.in[at].push(queueMsg{op: opNotify})
		}
	}
	if msg.op == opRelease {
		return
	}
	answer := queueMsg{op: msg.op, attempt: msg.attempt, status: reply.Status, number: small(reply.Register)}
	if msg.op == opConfirm {
		answer.asked = msg.number
	}
	if msg.op == opAcquire && reply.Status == core.Held {
		answer.remaining, answer.ahead = reply.Remaining, uint8(reply.Ahead)
	}
	c.in[at].push(answer)
}

func notifies(notified string) string {
	if notified == "" {
		return ""
	}
	return ", and it notifies " + notified
}

func (msg queueMsg) words() string {
	what := map[queueOp]string{opAcquire: "acquire", opConfirm: "confirm"}[msg.op]
	return fmt.Sprintf("%s of attempt %d %v", what, msg.attempt, msg.status)
}

// serve carries out a request by the rule, or by a broken variant of it.
func (m *queueModel) serve(e *rule.Entry, q *modelQueue, now time.Duration, r node.Request) (node.Answer, string) {
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
		case m.broken.notifiesSelf && p.Stamp != 0:
			q.Remove(p.Waiter)
			q.Insert(p)
			r.Place = node.Place{}
		}
	}
	// The last place may be any client's, in the variant that goes by arrival.
	if n := len(q.Waiters); m.broken.byArrival && r.Place.Stamp != 0 && n > 0 {
		r.Place.Stamp = q.Waiters[n-1].Stamp + 1
	}
	return rule.Serve(e, q, now, r)
}
