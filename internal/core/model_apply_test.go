package core_test

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// apply carries out a move and returns the invariant that it violates, if any.
// With a trace it also says in words what happens.
func (m *model) apply(s *state, mv move, t *trace) (violation string) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	m.prelude(s, mv, t)
	switch mv.kind {
	case begin:
		m.begin(s, i, mv.arg, t)
	case runAcquire, runConfirm, runExtend:
		m.run(s, mv, t)
	case hearAcquire, hearConfirm, timeoutConfirm:
		violation = m.hear(s, mv, t)
	case hearExtend:
		violation = m.hearExtend(s, i, n, t)
	case startExtend:
		a.tainted = m.tooLate(s, i)
		m.carryOut(s, i, a.core.StartExtend(now))
		if t != nil {
			round, _ := a.core.Extension()
			t.say("%s starts extension %d", name(i), round)
		}
	case loseMemory:
		for j := range m.attempts {
			s.attempts[j].old = s.attempts[j].begun
		}
		s.losses--
		s.rebuilt = 0
		s.nodes[n] = modelNode{lease: vacant, out: !m.broken.votesEmpty}
		t.say("node %d loses its memory", n+1)
	case readRegister:
		s.nodes[n].read = true
		s.rebuilt = max(s.rebuilt, s.nodes[n].register)
		t.say("the register of node %d is read for the rebuild: %d", n+1, s.nodes[n].register)
	case admit:
		s.nodes[n] = modelNode{lease: vacant, register: s.rebuilt}
		for j := range s.nodes {
			s.nodes[j].read = false
		}
		s.rebuilt = 0
		t.say("node %d is admitted with register %d", n+1, s.nodes[n].register)
	case inspect:
		for j := range m.attempts {
			if s.count(func(n modelNode) bool { return n.inspected }) == 0 {
				s.attempts[j].ordered = s.attempts[j].core.Phase() == core.Holding
			}
		}
		s.nodes[n].inspected = true
		s.floor = max(s.floor, s.nodes[n].register)
		t.say("the operator reads the register of node %d: %d", n+1, s.nodes[n].register)
	case forceRelease:
		floor := fence.Token(s.floor) + 1
		if m.broken.noFloor {
			floor = 0
		}
		e := s.entry(n)
		reply := serve(&e, node.ForceRelease, "", floor)
		s.setEntry(n, e)
		s.nodes[n].forced = true
		if t != nil {
			t.say("node %d executes the force release: %s", n+1, words(reply))
		}
	}
	m.forget(s)
	return violation
}

func (m *model) prelude(s *state, mv move, t *trace) {
	at := &s.nodes[mv.node()]
	if mv.vanishes() {
		t.say("%s's lease at node %d vanishes", name(int(at.lease)), mv.node()+1)
		at.lease = vacant
	}
	if by := mv.bump(); by != 0 {
		at.register += by
		s.bumps--
		t.say("another name moves the register of node %d to %d", mv.node()+1, at.register)
	}
}

func (m *model) begin(s *state, i int, proposal uint8, t *trace) {
	a := &s.attempts[i]
	attempt, action := core.NewAttempt(core.Params{Nodes: nNodes, TTL: ttl, Proposal: fence.Token(proposal)})
	a.core, a.begun, a.proposal = attempt, true, proposal
	for j := range m.attempts {
		if s.attempts[j].core.WasHeld() {
			a.after |= 1 << j
		}
	}
	m.carryOut(s, i, action)
	t.say("%s begins, proposing %d", name(i), proposal)
}

// carryOut puts the requests of an action on their way. A release needs none:
// leases vanish at any moment anyway.
func (m *model) carryOut(s *state, i int, action core.Action) {
	a := &s.attempts[i]
	for n := range nNodes {
		if !action.To.Has(n) {
			continue
		}
		switch action.Op {
		case core.Acquire:
			a.acquires[n] = message{stage: request}
		case core.Confirm:
			slot := 0
			for a.confirms[n][slot].stage != nothing {
				slot++
			}
			a.confirms[n][slot] = message{stage: request, asked: small(action.Token)}
		case core.Extend:
			a.extends[n].requests |= 1 << action.Round
			a.extends[n].reply = message{}
		}
	}
}

// run has a node execute a request.
func (m *model) run(s *state, mv move, t *trace) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	e := s.entry(n)
	if mv.kept() {
		e.Holder, e.Expires = node.Reserved("w"), now+ttl
		t.say("node %d keeps the name for a waiter", n+1)
	}
	var reply core.Reply
	asked := uint8(0)
	switch mv.kind {
	case runAcquire:
		reply = m.acquire(&e, holder(i), fence.Token(a.proposal))
		a.acquires[n] = message{stage: answered, status: reply.Status, register: small(reply.Register)}
	case runConfirm:
		msg := &a.confirms[n][mv.arg]
		asked = msg.asked
		if m.broken.confirmsReserved && mv.kept() {
			e.Holder = holder(i)
		}
		reply = m.confirm(&e, holder(i), fence.Token(asked))
		msg.status, msg.register = reply.Status, small(reply.Register)
		if msg.stage == orphan {
			msg.stage = nothing
		} else {
			msg.stage = answered
		}
	case runExtend:
		if m.broken.extendsReserved && mv.kept() {
			e.Holder = holder(i)
		}
		reply = serve(&e, node.Extend, holder(i), a.core.Token())
		a.extends[n].requests &^= 1 << mv.arg
		if round, _ := a.core.Extension(); uint32(mv.arg) == round {
			a.extends[n].reply = message{stage: answered, status: reply.Status, register: small(reply.Register)}
		}
	}
	s.setEntry(n, e)
	if t != nil {
		what := map[moveKind]string{runAcquire: "acquire", runConfirm: "confirm of %d", runExtend: "extend of round %d"}[mv.kind]
		switch mv.kind {
		case runConfirm:
			what = fmt.Sprintf(what, asked)
		case runExtend:
			what = fmt.Sprintf(what, mv.arg)
		}
		t.say("node %d executes %s's %s: %s", n+1, name(i), what, words(reply))
	}
}

// acquire has a node carry out an acquire, or a broken variant of it.
func (m *model) acquire(e *rule.Entry, holder node.Holder, proposal fence.Token) core.Reply {
	if m.broken.grantsReserved && e.Holder.Reserves() {
		e.Holder, e.Register = holder, max(e.Register, proposal)
		return core.Reply{Status: core.Granted, Register: e.Register}
	}
	return serve(e, node.Acquire, holder, proposal)
}

// confirm has a node carry out a confirm, or a broken variant of it.
func (m *model) confirm(e *rule.Entry, holder node.Holder, token fence.Token) core.Reply {
	if m.broken.confirmAnyway {
		pretended := rule.Entry{Holder: holder, Expires: now + ttl, Register: e.Register}
		reply := serve(&pretended, node.Confirm, holder, token)
		e.Register = pretended.Register
		return reply
	}
	reply := serve(e, node.Confirm, holder, token)
	if m.broken.confirmOutrun && reply.Status == core.Outrun {
		reply = core.Reply{Status: core.Granted, Register: token}
	}
	return reply
}

// hear delivers the reply of an acquire or a confirm, or the news that there
// is none, and checks the tokens if the attempt holds from now on.
//
// Other requests need no timeout: an acquire or an extend that timed out has no
// effect on an Attempt but to bring it nearer to giving up, and one that gave
// up does nothing that an attempt to which nothing is delivered any more
// does not do either.
func (m *model) hear(s *state, mv move, t *trace) (violation string) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	held := a.core.WasHeld()
	var action core.Action
	var reply core.Reply
	var asked fence.Token
	switch mv.kind {
	case hearAcquire:
		reply = a.acquires[n].reply()
		a.acquires[n] = message{}
		action = a.core.OnAcquire(n, reply, now)
	case hearConfirm, timeoutConfirm:
		msg := &a.confirms[n][mv.arg]
		asked = fence.Token(msg.asked)
		reply = msg.reply()
		if mv.kind == timeoutConfirm {
			reply = core.Reply{}
		}
		if msg.stage == request {
			msg.stage = orphan
		} else {
			*msg = message{}
		}
		action = a.core.OnConfirm(n, asked, reply, now)
	}
	if m.broken.noConfirm && action.Op == core.Confirm {
		for n := range quorum {
			a.core.OnConfirm(n, action.Token, core.Reply{Status: core.Granted, Register: action.Token}, now)
		}
		action = core.Action{}
	}
	if m.broken.soundByConfirm && mv.kind == hearConfirm && reply.Status == core.Granted && asked == a.core.Token() {
		a.core.MarkSound(n)
	}
	m.carryOut(s, i, action)
	finished := !held && a.core.Phase() == core.Holding
	if t != nil {
		what := "acquire"
		if mv.kind != hearAcquire {
			what = fmt.Sprintf("confirm of %d", asked)
		}
		t.say("%s hears of its %s at node %d: %s%s", name(i), what, n+1, words(reply), m.outcome(a, action, finished))
	}
	if finished {
		return m.wrongToken(s, i)
	}
	return ""
}

func (m *model) wrongToken(s *state, i int) (violation string) {
	token := s.attempts[i].core.Token()
	for j := range m.attempts {
		b := &s.attempts[j].core
		if j == i || !b.WasHeld() {
			continue
		}
		if b.Token() == token {
			return fmt.Sprintf("tokens are unique: %s and %s both have %d", name(j), name(i), token)
		}
		if s.attempts[i].after&(1<<j) != 0 && b.Token() > token {
			return fmt.Sprintf("%s began after %s had finished: %s has %d, %s has %d",
				name(i), name(j), name(j), b.Token(), name(i), token)
		}
	}
	return ""
}

// tooLate reports whether an extension that starts now must not be carried:
// somebody with a larger token has held, or the operator has released the lock
// by force.
func (m *model) tooLate(s *state, i int) bool {
	a := &s.attempts[i]
	for j := range m.attempts {
		b := &s.attempts[j].core
		if j != i && b.WasHeld() && b.Token() > a.core.Token() {
			return true
		}
	}
	return a.ordered && s.count(func(n modelNode) bool { return n.forced }) >= quorum
}

func (m *model) hearExtend(s *state, i, n int, t *trace) (violation string) {
	a := &s.attempts[i]
	reply := a.extends[n].reply.reply()
	a.extends[n].reply = message{}
	seen := reply
	if m.broken.extendsByLease {
		seen.Register = 0
	}
	round, _ := a.core.Extension()
	a.core.OnExtend(n, round, seen, now)
	repaired := reply.Status == core.Granted && reply.Register <= a.core.Token()
	heard := a.acquires[n].stage == nothing
	if repaired && (m.broken.soundByRepair || m.broken.soundIfHeard && heard) {
		a.core.MarkSound(n)
	}
	_, outcome := a.core.Extension()
	if t != nil {
		t.say("%s hears of its extend of round %d at node %d: %s%s", name(i), round, n+1, words(reply),
			map[bool]string{true: ", carried"}[outcome == core.Carried])
	}
	if a.tainted && outcome == core.Carried {
		return fmt.Sprintf("%s's extension %d is carried, but when it started the lock was no longer %s's", name(i), round, name(i))
	}
	return ""
}

func (m *model) outcome(a *attempt, action core.Action, finished bool) string {
	switch {
	case finished:
		return fmt.Sprintf(", and holds with token %d", a.core.Token())
	case action.Op == core.Confirm:
		return fmt.Sprintf(", and asks to confirm %d", action.Token)
	case a.core.Phase() == core.Over:
		return ", and gives up"
	}
	return ""
}

func words(r core.Reply) string {
	if r.Register == 0 {
		return r.Status.String()
	}
	return fmt.Sprintf("%s %d", r.Status, r.Register)
}

// forget drops what makes no difference any more, so that states that differ
// only in it are one state. Every rule here says why nothing is lost.
func (m *model) forget(s *state) {
	// Whether a register can fall: only by a loss of memory.
	falls := s.losses > 0 || s.count(func(n modelNode) bool { return n.out }) > 0
	for i := range m.attempts {
		a := &s.attempts[i]
		if !a.begun {
			continue
		}
		phase, alive := a.core.Phase(), m.alive(s, i)
		if phase == core.Holding || phase == core.Over {
			a.old, a.after = false, 0 // of use only to an acquisition
		}
		round, _ := a.core.Extension()
		for n := range nNodes {
			at := &s.nodes[n]
			// A reply to an attempt that is not alive changes nothing.
			if !alive && a.acquires[n].stage == answered {
				a.acquires[n] = message{}
			}
			// A lease at this node can be a's only if it is now, or by a late
			// acquire or extend.
			leasable := int(at.lease) == i || a.acquires[n].stage == request || m.rounds > 0

			kept := 0
			for _, msg := range a.confirms[n] {
				// Answers count only for the number that was asked for last.
				counts := alive && phase != core.Acquiring && fence.Token(msg.asked) == a.core.Token()
				if !counts && msg.stage == request {
					msg.stage = orphan
				}
				// All that an orphan can do is raise the register to its number
				// under a's lease.
				inert := msg.stage == orphan &&
					(!falls && at.register >= msg.asked || !leasable && !m.broken.confirmAnyway)
				if msg.stage == nothing || inert || !counts && msg.stage == answered {
					continue
				}
				a.confirms[n][kept] = msg
				kept++
			}
			for ; kept < maxPending; kept++ {
				a.confirms[n][kept] = message{}
			}

			ext := &a.extends[n]
			if !alive || a.core.Phase() != core.Holding {
				ext.reply = message{}
			}
			// All that an extend nobody waits for can do is lease a vacant node
			// whose register is not past the token.
			if !falls && fence.Token(at.register) > a.core.Token() {
				if alive {
					ext.requests &= 1 << round
				} else {
					ext.requests = 0
				}
			}
		}
	}
}
