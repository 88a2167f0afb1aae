package core_test

import (
	"cmp"
	"fmt"
	"math/bits"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	prooftrace "github.com/fenlock/fenlock/internal/proof/trace"
	"github.com/fenlock/fenlock/node"
)

// apply carries out a move and returns the invariant that it violates, if any.
// With a trace it also says in words what happens.
func (m *model) apply(s *state, mv move, t *trace) (violation string) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	m.prelude(s, mv, t)
	var before prooftrace.Held
	if m.tie != nil {
		before = a.held(i)
	}
	switch mv.kind {
	case begin:
		m.begin(s, i, mv.arg, n, t)
	case runAcquire, runConfirm, runExtend, runRaise:
		m.run(s, mv, t)
	case hearAcquire, hearConfirm, timeoutConfirm, silence:
		violation = m.hear(s, mv, t)
	case hearOther:
		violation = m.hearOther(s, i, n, t)
	case hurry:
		m.carryOut(s, i, a.core.Hurry())
		t.say("%s waits for no late answer any more%s", name(i), m.outcome(a, core.Action{}, false))
	case hearExtend:
		violation = cmp.Or(m.hearExtend(s, i, n, t), m.outrun(s))
	case hearLate:
		violation = m.hearLate(s, i, n, mv.arg, t)
	case goOn:
		m.carryOut(s, i, a.core.Renew(now))
		t.say("%s goes on with its extension", name(i))
	case hearRaise:
		_, floor := a.core.Mark()
		m.hearRaise(s, i, n, t)
		if _, next := a.core.Mark(); next != floor {
			a.stale = false // another raise has begun
		}
		violation = cmp.Or(m.outrun(s), a.carriedWrongly(i))
	case giveUpRaise:
		a.core.EndRaise()
		t.say("%s gives up its raise", name(i))
	case startExtend:
		if n == 1 && a.shares() { // see unshares
			a.alone = true
			t.say("%s extends as if it had the name alone", name(i))
		} else if n == 1 {
			round, _ := a.core.Extension()
			a.shared = uint8(round) + 1
			a.core.Share()
			t.say("%s lets others share the name from its next extension on", name(i))
		}
		if n == 2 {
			a.offered = small(a.core.OfferExport())
			t.say("%s is about to export its lock", name(i))
		}
		a.tainted = m.tooLate(s, i)
		if mv.arg > 0 {
			a.core.Want(a.core.Token() + fence.Token(mv.arg))
			t.say("%s wants its mark to be %d", name(i), a.core.Token()+fence.Token(mv.arg))
		}
		m.carryOut(s, i, a.core.StartExtend(now))
		if round, _ := a.core.Extension(); a.tainted {
			a.taints |= 1 << round
		}
		if t != nil {
			round, _ := a.core.Extension()
			t.say("%s starts extension %d", name(i), round)
		}
	case exportLock:
		m.export(s, i, t)
	case adoptLock:
		violation = m.adopt(s, i, mv.arg == 1, t)
	case exporterExtends:
		violation = m.exporterExtends(s, i, t)
	case give:
		m.give(s, mv, t)
	case hearNotice:
		violation = m.hearNotice(s, mv, t)
	case loseMemory:
		for j := range m.attempts {
			s.attempts[j].old = s.attempts[j].begun && !s.attempts[j].waits
			_, s.attempts[j].stale = s.attempts[j].core.Raising()
			s.attempts[j].age()
		}
		s.losses--
		s.rebuilt = 0
		s.nodes[n] = modelNode{lease: vacant, out: !m.broken.votesEmpty}
		if m.tie != nil {
			m.tie.took(m.tie.group.Lost(n, &prooftrace.Node{}))
		}
		t.say("node %d loses its memory", n+1)
	case readRegister:
		for j := range m.attempts {
			if s.attempts[j].stale && !m.broken.raisesLate {
				s.attempts[j].core.EndRaise()
			}
			s.attempts[j].overdue = s.attempts[j].overdue || m.silences && s.attempts[j].old
			if !m.broken.takesStale {
				s.attempts[j].expire()
			}
		}
		m.waited(s)
		s.nodes[n].read = true
		s.rebuilt = max(s.rebuilt, s.nodes[n].register)
		m.tie.read(s, n)
		t.say("the register of node %d is read for the rebuild: %d", n+1, s.nodes[n].register)
	case admit:
		s.nodes[n].admit(s.rebuilt)
		for j := range s.nodes {
			s.nodes[j].read = false
		}
		s.rebuilt = 0
		if m.tie != nil {
			m.tie.took(m.tie.group.Admitted(n, nil, &prooftrace.Node{Register: uint64(s.nodes[n].register)}))
		}
		t.say("node %d is admitted with register %d", n+1, s.nodes[n].register)
	case inspect:
		m.order(s)
		s.nodes[n].inspected = true
		s.floor = max(s.floor, s.nodes[n].register)
		t.say("the operator reads the register of node %d: %d", n+1, s.nodes[n].register)
	case runStray:
		m.stray(s, i, n, t)
	case forceRelease:
		m.order(s)
		_, floor := s.force()
		switch {
		case m.broken.onePass:
			floor = fence.Token(s.floor) + 1
		case m.broken.noFloor:
			floor = 0
		}
		floor += fence.Token(mv.arg) // a jump
		s.jumps -= mv.arg
		e := s.entry(n)
		was := e
		reply := serve(&e, node.ForceRelease, "", floor, false)
		m.tie.begins(operator)
		m.tie.served(prooftrace.Force, n, operator, uint64(floor), false, &was, &e, reply, 0)
		released := m.released(s)
		s.setEntry(n, e)
		s.nodes[n].forced = small(reply.Register)
		m.forcedBy(s, released)
		if t != nil {
			t.say("node %d executes the force release: %s", n+1, words(reply))
		}
	}
	if m.tie != nil && mv.kind == adoptLock {
		before = m.tie.adopts(a, i)
	}
	if m.tie != nil && mv.kind < loseMemory && mv.kind != begin && mv.kind != give {
		m.tie.told(a, i, before)
	}
	s.lapse()
	m.forget(s)
	if m.tie != nil {
		m.tie.canonical(s)
		if m.tie.err != nil {
			violation, m.tie.err = m.tie.err.Error(), nil
		}
	}
	return violation
}

// order notes who held when the operator looked at the nodes for the first time.
func (m *model) order(s *state) {
	if s.count(func(n modelNode) bool { return n.inspected || n.forced != 0 }) > 0 {
		return
	}
	for j := range m.attempts {
		s.attempts[j].ordered = s.attempts[j].core.Phase() == core.Holding || s.attempts[j].onItsWay()
	}
}

func (m *model) prelude(s *state, mv move, t *trace) {
	at := &s.nodes[mv.node()]
	for j := range m.attempts {
		if mv.vanish&(1<<j) != 0 && at.has(j) {
			t.say("%s's lease at node %d vanishes", name(j), mv.node()+1)
		}
	}
	at.drop(mv.vanish)
	s.lapse()
	if by := mv.bump(); by != 0 {
		at.register += by
		s.bumps--
		t.say("another name moves the register of node %d to %d", mv.node()+1, at.register)
	}
}

func (m *model) begin(s *state, i int, proposal uint8, how int, t *trace) {
	a, shared := &s.attempts[i], how == 1
	attempt, action := core.NewAttempt(core.Params{Nodes: nNodes, TTL: ttl, Proposal: fence.Token(proposal),
		Waits: m.silences, Shared: shared})
	a.core, a.begun, a.proposal, a.shared = attempt, true, proposal, maxRounds+1
	if shared {
		a.shared = 0
	}
	for j := range m.attempts {
		if s.attempts[j].wasHeld() {
			a.after |= 1 << j
		}
	}
	if a.waits = how == 2; a.waits {
		a.core = core.Attempt{} // it asks no node
		t.say("%s begins to wait", name(i))
		return
	}
	m.tie.begins(uint64(i))
	if m.tie != nil {
		m.tie.group.Fix("reader", uint64(core.Flags(shared)), uint64(i))
	}
	m.carryOut(s, i, action)
	t.say("%s begins, proposing %d%s", name(i), proposal, map[bool]string{true: ", to share the name"}[shared])
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
			x := &a.extends[n]
			if action.Token != 0 {
				// After the last extension was carried a mark is of no use. All that a raise
				// could do then is move registers, as another name does.
				if from, _ := a.core.Raising(); int(from) < m.rounds || m.late {
					x.raises[action.Round] = small(action.Token)
				}
				continue
			}
			x.requests |= 1 << action.Round
			m.overtake(x, action.Round)
			if !m.broken.roundsMixed {
				x.reply = message{}
			}
		}
	}
}

// run has a node execute a request.
func (m *model) run(s *state, mv move, t *trace) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	e := s.entry(n)
	out := e.Out
	e.Out = out && !m.broken.votesOut
	refused := mv.kept() && s.nodes[n].leased() != 0 && !m.broken.takesKept()
	switch {
	case mv.open():
		e.Holder, e.Expires = sharedHolder(&s.nodes[n], true), now+ttl
		t.say("node %d has one more who shares the name", n+1)
	case mv.kept() && !refused:
		e.Holder, e.Expires = node.Reserved("w"), now+ttl
		t.say("node %d keeps the name for a waiter", n+1)
	case refused:
		t.say("somebody is first in the queue of node %d", n+1)
	}
	var reply core.Reply
	was := e
	asked := uint8(0)
	switch mv.kind {
	case runAcquire:
		reply = core.Reply{Status: core.Held}
		if !refused {
			reply = m.acquire(&e, &s.nodes[n], a.holder(i), fence.Token(a.proposal), a.shared == 0)
		}
		a.acquires[n] = message{stage: answered, status: reply.Status, register: small(reply.Register)}
	case runConfirm:
		msg := &a.confirms[n][mv.arg]
		asked = msg.asked
		if m.broken.confirmsReserved && mv.kept() {
			e.Holder = holder(i)
		}
		reply = m.confirm(&e, a.holder(i), fence.Token(asked))
		msg.status, msg.register = reply.Status, small(reply.Register)
		if msg.stage == orphan {
			msg.stage = nothing
		} else {
			msg.stage = answered
		}
		m.repeat(a, n, asked)
	case runExtend, runRaise:
		x := &a.extends[n]
		round, _ := a.core.Extension()
		floor := a.extendFloor(mv.arg)
		if mv.kind == runRaise {
			asked, x.raises[mv.arg] = x.raises[mv.arg], 0
			floor = fence.Token(asked)
		} else {
			x.requests &^= 1 << mv.arg
		}
		reply = m.extend(&e, a, n, mv.kept(), a.holder(i), floor, mv.arg >= a.shared && !a.alone)
		said := message{stage: answered, asked: asked, status: reply.Status, register: small(reply.Register)}
		current := uint32(mv.arg) == round
		switch {
		case mv.kind == runExtend && current:
			said.asked = 0
			x.reply = said
		case mv.kind == runRaise:
			mark, _ := a.core.Mark()
			if was := x.agreed; was.stage != answered || was.status != core.Granted || fence.Token(was.register) > mark {
				x.agreed, x.agreedIn = said, mv.arg
			}
		case mv.kind == runExtend && m.late && mv.arg > 0 && a.core.Phase() == core.Holding:
			said.asked = 0
			x.lates[mv.arg] = said
		}
	}
	if m.tie != nil {
		op, token, reads := prooftrace.Acquire, uint64(asked), a.shared == 0
		switch mv.kind {
		case runConfirm:
			op = prooftrace.Confirm
		case runExtend:
			op, token, reads = prooftrace.Extend, uint64(a.extendFloor(mv.arg)), mv.arg >= a.shared
		case runRaise:
			op, reads = prooftrace.Extend, mv.arg >= a.shared
		}
		m.tie.served(op, n, a.holderID(i), token, reads, &was, &e, reply, a.roundOf(i, mv.arg))
	}
	if a.exported {
		m.unheard(a, mv)
	}
	epoch := s.nodes[n].epoch
	e.Out = out
	s.setEntry(n, e)
	if m.broken.sharesOld && s.nodes[n].epoch == 0 {
		s.nodes[n].epoch = epoch
	}
	if t != nil {
		what := map[moveKind]string{runAcquire: "acquire", runConfirm: "confirm of %d", runExtend: "extend of round %d",
			runRaise: "extend with floor %d"}[mv.kind]
		switch mv.kind {
		case runConfirm, runRaise:
			what = fmt.Sprintf(what, asked)
		case runExtend:
			what = fmt.Sprintf(what, mv.arg)
		}
		t.say("node %d executes %s's %s: %s", n+1, name(i), what, words(reply))
	}
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
			a.old, a.overdue, a.after = false, false, 0 // of use only to an acquisition
		}
		a.forgetGifts(m, alive)
		round, _ := a.core.Extension()
		mark, floor := a.core.Mark()
		raising := alive && phase == core.Holding && floor > mark
		a.stale = a.stale && raising
		mayRaise := round > 0 && (int(round) < m.rounds && !m.raises(a) || m.late)
		for n := range nNodes {
			at := &s.nodes[n]
			// A reply to an attempt that is not alive changes nothing.
			if !alive && a.acquires[n].stage == answered && !m.broken.grantsMixed {
				a.acquires[n] = message{}
			}
			// A lease at this node can be a's only if it is now, or by a late
			// acquire or extend.
			leasable := at.has(i) || a.acquires[n].stage == request || m.rounds > 0 && (alive || !m.reserves)

			kept := 0 // confirms
			for _, msg := range a.confirms[n] {
				// Answers count only for the number that was asked for last.
				counts := alive && phase != core.Acquiring && fence.Token(msg.asked) == a.core.Token()
				if !counts && msg.stage == request {
					msg.stage = orphan
				}
				// All that an orphan can do is raise the register to its number
				// under a's lease.
				inert := msg.stage == orphan && !m.repeats &&
					(!falls && at.register >= msg.asked || !leasable && !m.broken.confirmAnyway)
				if msg.stage == nothing || inert || !counts && msg.stage == answered {
					continue
				}
				a.confirms[n][kept] = msg
				kept++
			}
			clear(a.confirms[n][kept:])

			m.forgetExtends(s, i, n, raising, falls)
			switch {
			case !at.has(i):
			case !alive && m.reserves && kept == 0:
				// It refuses, as a name that is reserved at any moment does.
				at.drop(1 << i)
			case !alive || m.rounds == 0:
				at.origins[i] = 0 // of use to its holder only
			case phase == core.Holding && int(round) >= m.rounds-1 && !mayRaise && (!raising || int(round) == m.rounds) &&
				(!m.exports || a.adopted):
				at.origins[i] = counting(at.origins[i], mark, floor)
			}
		}
	}
}

// raises reports whether the round under way is carried, and has raised the mark or does. With
// three nodes it hears of one larger origin at most.
func (m *model) raises(a *attempt) bool {
	round, state := a.core.Extension()
	from, _ := a.core.Raising()
	_, floor := a.core.Mark()
	return floor != 0 && from == round && (state == core.Carried || !m.late)
}

// counting is an origin of which only that matters: whether the lease counts, or will by a raise
// that is under way.
func counting(origin uint8, mark, floor fence.Token) uint8 {
	switch {
	case fence.Token(origin) <= mark:
		return 0
	case fence.Token(origin) <= floor:
		return uint8(floor)
	}
	return uint8(max(mark, floor)) + 1
}

// forgetExtends does it for an attempt's extends at a node.
func (m *model) forgetExtends(s *state, i, n int, raising, falls bool) {
	a, at := &s.attempts[i], &s.nodes[n]
	x := &a.extends[n]
	round, _ := a.core.Extension()
	alive := m.alive(s, i)
	mark, floor := a.core.Mark()
	if x.reply.stage == answered && x.reply.status == core.Granted && int(round) >= m.rounds && !m.late {
		x.reply.register = counting(x.reply.register, mark, floor)
	}
	if !alive || a.core.Phase() != core.Holding && a.core.Phase() != core.Adopting || m.raises(a) {
		x.reply = message{} // it is carried, and raises the mark once
	}
	from, _ := a.core.Raising()
	awaited := raising && !a.core.HasAgreed(n)
	confused := m.broken.raisesByOther || m.broken.raisesByOld
	switch {
	case !alive || !confused && (!awaited || uint32(x.agreedIn) < from || fence.Token(x.agreed.asked) != floor):
		x.agreed, x.agreedIn = message{}, 0
	case !confused:
		x.agreedIn = uint8(from) // or any round since
	}
	m.forgetLates(a, n, alive)
	if m.downgrade && a.shared > 0 && a.shared <= maxRounds {
		return // which round it is of makes a difference
	}
	old := x.requests &^ (1 << round)
	if m.raises(a) {
		old = x.requests
	}
	old &^= m.counting(a, n, alive)
	for r := range uint8(maxRounds + 1) {
		if floor := small(a.extendFloor(r)); alive && floor > 0 && (falls || floor > at.register) {
			old &^= 1 << r // it may raise the register
		}
	}
	x.requests &^= old
	next := from // of those that are awaited, which round they are of makes no difference
	for r := range x.raises {
		awaited := confused || awaited && uint32(r) >= from
		if floor := x.raises[r]; awaited && floor != 0 && !confused && alive {
			x.raises[r], x.raises[next] = 0, floor
			next++
			continue
		}
		if !alive {
			x.raises[r] = 0 // it moves a register at most, as another name does
		}
		if floor := x.raises[r]; floor != 0 && !awaited && !falls && at.register >= floor {
			// It raises nothing any more: it is an extend like any other.
			x.raises[r] = 0
			old |= 1 << r
		}
	}
	// All that an extend without a waiting caller can do is lease a vacant node, so that which
	// round it is of makes no difference. The lease of an attempt that is not alive only refuses:
	// names that are reserved at any moment do that too.
	if alive || !m.reserves {
		x.requests |= 1<<bits.OnesCount8(old) - 1
	}
}
