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

func (n *lineNode) asLine() rule.Line {
	return append(make(rule.Line, 0, maxClients), n.line[:n.length]...)
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
	e, l := n.asEntry(), n.asLine()
	owner, attempt := n.owner, n.attempt
	var holder node.Holder
	if msg.attempt > 0 {
		holder = holderName(i, msg.attempt)
	}
	var reply core.Reply
	var called, what string
	switch p := place(i, msg.stays); msg.op {
	case opAcquire:
		what = "acquire"
		reply, called = m.acquireInLine(&e, &l, s.now, p, func(e *rule.Entry) core.Reply {
			return rule.Acquire(e, s.now, holder, lineTTL, fence.Token(msg.number))
		})
	case opConfirm:
		what = "confirm"
		reply = rule.Confirm(&e, s.now, holder, fence.Token(msg.number))
	case opRelease:
		what = "release"
		if msg.attempt == 0 {
			what = "leave"
		}
		reply, called = m.releaseInLine(&e, &l, s.now, holder, p)
	}
	// Who has the lease now, in few bytes again.
	switch {
	case e.Holder == "":
		owner, attempt = 0, 0
	case called != "":
		owner, attempt = uint8(waiterIndex(called)+1), 0
	case reply.Status == core.Granted && msg.op == opAcquire:
		owner, attempt = uint8(i+1), msg.attempt
	}
	*n = lineNode{owner: owner, attempt: attempt, expires: e.Expires, register: small(e.Register), length: len(l)}
	copy(n.line[:], l)
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
		answer.remaining = e.Expires - s.now
		answer.ahead = uint8(l.Ahead(waiterName(i)))
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

// everybody can be told.
func everybody(string) bool { return true }

// acquireInLine is the rule of that name, or a broken variant of it.
func (m *lineModel) acquireInLine(e *rule.Entry, l *rule.Line, now time.Duration, p node.Place,
	acquire func(*rule.Entry) core.Reply) (core.Reply, string) {
	m.enters(l, &p)
	return rule.AcquireInLine(e, l, now, p, everybody, acquire)
}

// releaseInLine is the rule of that name, or a broken variant of it.
func (m *lineModel) releaseInLine(e *rule.Entry, l *rule.Line, now time.Duration, holder node.Holder, p node.Place) (core.Reply, string) {
	switch {
	case m.broken.silent:
		var nobody rule.Line
		reply, _ := rule.ReleaseInLine(e, &nobody, now, holder, p, everybody)
		if p.Stamp == 0 {
			l.Leave(p.Waiter)
		} else {
			l.Join(p)
		}
		return reply, ""
	case m.broken.noRejoin && p.Stamp != 0:
		p = node.Place{}
	case m.broken.callsSelf && p.Stamp != 0:
		l.Join(p)
		p = node.Place{}
	}
	m.enters(l, &p)
	return rule.ReleaseInLine(e, l, now, holder, p, everybody)
}

// enters makes a place the last one, in the variant that goes by arrival.
func (m *lineModel) enters(l *rule.Line, p *node.Place) {
	if m.broken.byArrival && p.Stamp != 0 && len(*l) > 0 {
		p.Stamp = (*l)[len(*l)-1].Stamp + 1
	}
}
