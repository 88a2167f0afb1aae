package core_test

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What the moves of givenModel do: by package rule at the nodes, and by core.Given at the waiters.

var givenPlaces = [2]node.Place{{Waiter: "A:1", Stamp: 1}, {Waiter: "B:1", Stamp: 2}}

func attemptHolder(w, k uint8) node.Holder { return node.Holder(fmt.Sprintf("%s/%d", name(int(w)), k)) }

// serve has a node carry out a request, and puts what it tells on its way.
func (s *givenState) serve(n uint8, r node.Request) node.Answer {
	at := &s.nodes[n]
	e := rule.Entry{Register: fence.Token(at.register), Expires: now + ttl}
	q := &reachable{}
	for w, p := range givenPlaces {
		if at.queued&(1<<w) != 0 {
			q.Insert(p)
		}
	}
	switch at.kind {
	case leaseForeign:
		e.Holder = "foreign"
	case leaseAttempt:
		e.Holder = attemptHolder(at.who, at.number)
	case leaseGiven:
		e.Holder, e.Origin = node.Given(givenPlaces[at.who].Waiter, fence.Token(at.number)), fence.Token(at.number)
		if at.renewed > 1 {
			e.Origin = fence.Token(at.renewed - 1)
		}
	case leaseReserved:
		e.Holder = node.Reserved(givenPlaces[at.who].Waiter)
	}
	before := e.Holder
	r.TTL = ttl
	answer, told := rule.ServeShared(&e, q, now, r)
	at.register, at.queued = small(e.Register), 0
	for _, p := range q.Waiters {
		at.queued |= 1 << (p.Waiter[0] - 'A')
	}
	for _, text := range told {
		if notice, ok := node.ParseNotice(text); ok && notice.Number != 0 {
			at.of[notice.Waiter[0]-'A'].notices |= 1 << notice.Number
		}
	}
	if e.Leased(now) && e.Holder == before {
		return answer
	}
	at.kind, at.who, at.number, at.renewed = leaseVacant, 0, 0, 0
	if !e.Leased(now) {
		return answer
	}
	switch h := string(e.Holder); {
	case h == "foreign":
		at.kind = leaseForeign
	case e.Holder.Reserves():
		at.kind, at.who = leaseReserved, h[len("next:")]-'A'
	case h[1] == '/':
		at.kind, at.who, at.number = leaseAttempt, h[0]-'A', h[2]-'0'
	default:
		at.kind, at.who = leaseGiven, h[0]-'A'
		var number int
		fmt.Sscanf(h[2:], "1#%d:", &number)
		at.number = uint8(number)
	}
	return answer
}

// given is what the waiter knows, as the real code has it.
func (s *givenState) given(w uint8) (g core.Given) {
	for n := range s.nodes {
		x := &s.nodes[n].of[w]
		g.Refused(n, now, now, 0, 0)
		if x.back != 0 {
			g.Told(n, fence.Token(x.back), now, now)
			g.Back(n)
		}
		if x.noticed != 0 {
			g.Told(n, fence.Token(x.noticed), now, now)
		}
	}
	return g
}

// take has a waiter that sleeps hold what was given to it, if that is enough.
func (m *givenModel) take(s *givenState, w uint8) {
	of, g := &s.waiters[w], s.given(w)
	if of.phase != sleeps {
		return
	}
	number, _, ok := g.Best(nNodes, now)
	if m.broken.anyNumber && !ok {
		heard := 0
		for n := range s.nodes {
			if noticed := s.nodes[n].of[w].noticed; noticed != 0 {
				heard++
				number = max(number, fence.Token(noticed))
			}
		}
		ok = heard >= quorum
	}
	if !ok {
		return
	}
	of.phase, of.token = holdsGiven, small(number)
	for n := range s.nodes {
		x := &s.nodes[n].of[w]
		if m.parts {
			x.flags |= parts
		}
		if x.noticed == of.token || m.broken.anyNumber && x.noticed != 0 {
			x.flags |= counted
		}
	}
	s.giveBackAll(w, m)
}

// giveBackAll has a waiter return all that was given to it, but its lock.
func (s *givenState) giveBackAll(w uint8, m *givenModel) {
	g := s.given(w)
	g.Take(fence.Token(s.waiters[w].token))
	for n := range s.nodes {
		x := &s.nodes[n].of[w]
		if number := g.Back(n); number != 0 {
			x.giveBacks |= 1 << number
			if !m.broken.backCounts {
				x.back, x.noticed = max(x.back, small(number)), 0
			}
		}
	}
}

// heldBy says what is given to a waiter: by its holder.
func (m *givenModel) heldBy(at *givenNode, w, number uint8) node.Holder {
	if m.broken.oneHolder && at.kind == leaseGiven && at.who == w {
		number = at.number
	}
	return node.Given(givenPlaces[w].Waiter, fence.Token(number))
}

const nextProposal = 1

func (m *givenModel) apply(s *givenState, mv givenMove) {
	if mv.expired {
		s.expire(mv.node)
	}
	if mv.forgotten {
		s.nodes[mv.node].queued = 0
	}
	at, w := &s.nodes[mv.node], mv.who
	x, of := &at.of[w], &s.waiters[w]
	place := givenPlaces[w]
	if of.phase > tries {
		place.Stamp = 0
	}
	gone := node.Place{Waiter: place.Waiter}
	if of.phase == holdsGiven && !m.broken.placedBack {
		place = node.Place{} // with it, it would give its lock back
	}
	release := func(h node.Holder, p node.Place, next fence.Token) {
		s.serve(mv.node, node.Request{Op: node.Release, Holder: h, Place: p, Next: next})
	}
	switch mv.kind {
	case gRelease:
		switch {
		case at.kind == leaseVacant:
			at.kind = leaseForeign
			at.register++
			at.foreigners--
		case at.kind == leaseForeign:
			at.released |= 1
		}
		release("foreign", node.Place{}, nextProposal)
	case gLateExtend:
		at.released |= 2
		s.serve(mv.node, node.Request{Op: node.Extend, Holder: "foreign"})
	case gNotice:
		x.notices &^= 1 << mv.arg
		switch {
		case of.phase > tries:
			if mv.arg != of.token {
				x.giveBacks |= 1 << mv.arg
			}
		case x.expired&(1<<mv.arg) == 0 && mv.arg > x.back:
			x.noticed = max(x.noticed, mv.arg)
			m.take(s, w)
		}
	case gAcquire:
		x.acquires &^= 1 << mv.arg
		a := s.serve(mv.node, node.Request{Op: node.Acquire, Holder: attemptHolder(w, mv.arg), Token: nextProposal,
			Place: givenPlaces[w]})
		if a.Status == node.Granted && of.attempts == mv.arg {
			x.granted = mv.arg
		}
	case gReleaseAttempt:
		x.releases &^= 1 << mv.arg
		if m.broken.takesBackLate {
			release("", gone, 0)
		}
		release(attemptHolder(w, mv.arg), givenPlaces[w], 0)
	case gGiveBack:
		x.giveBacks &^= 1 << mv.arg
		release(m.heldBy(at, w, mv.arg), place, 0)
	case gParts:
		x.flags &^= parts
		h := node.Given(gone.Waiter, 0)
		if m.broken.leavesAsNone {
			h = ""
		}
		release(h, gone, 0)
	case gExtend:
		m.extend(s, mv)
	case gRetry:
		s.giveBackAll(w, m)
		of.attempts++
		of.phase, of.late = tries, false
		for n := range s.nodes {
			if w > 0 || !m.silent {
				s.nodes[n].of[w].acquires |= 1 << of.attempts
			}
			s.nodes[n].of[w].granted = 0
		}
	case gFail:
		of.phase, of.late = sleeps, false
		for n := range s.nodes {
			if w > 0 || !m.silent {
				s.nodes[n].of[w].releases |= 1 << of.attempts
			}
			s.nodes[n].of[w].granted = 0
		}
		m.take(s, w)
	case gSucceed:
		of.phase = holdsOwn
		s.giveBackAll(w, m)
	case gStartExtend:
		of.asked = true
		for n := range s.nodes {
			s.nodes[n].of[w].flags |= extending
		}
	}
	s.forget()
}

// extend has a node extend what was given. An answer that comes is as one that is heard: of what is
// not carried there is no belief.
func (m *givenModel) extend(s *givenState, mv givenMove) {
	at, w := &s.nodes[mv.node], mv.who
	x, of := &at.of[w], &s.waiters[w]
	x.flags &^= extending
	h := m.heldBy(at, w, of.token)
	a := s.serve(mv.node, node.Request{Op: node.Extend, Holder: h})
	if a.Status != node.Granted {
		return
	}
	at.renewed = small(a.Register) + 1
	lock := core.NewGiven(core.Params{Nodes: nNodes, TTL: ttl}, fence.Token(of.token), now+ttl)
	if of.phase != holdsGiven || !lock.Accepts(core.Reply{Status: a.Status, Register: a.Register}) {
		return
	}
	x.flags |= extended
	count := 0
	for n := range s.nodes {
		count += int(s.nodes[n].of[w].flags&extended) / int(extended)
	}
	of.carried = of.carried || count >= quorum && !of.late
}

// expire ends a lease, and what its holder believes by it.
func (s *givenState) expire(n uint8) {
	at := &s.nodes[n]
	w := at.who
	x, of := &at.of[w], &s.waiters[w]
	switch at.kind {
	case leaseAttempt:
		if at.number == of.attempts && (of.phase == tries || of.phase == holdsOwn) {
			of.late = true
			if of.phase == holdsOwn {
				of.phase = isOver
			}
		}
	case leaseGiven:
		x.expired |= 1 << at.number
		if x.noticed == at.number {
			x.noticed = 0
		}
		if of.phase == holdsGiven && at.number == of.token {
			x.flags &^= counted
			if at.renewed != 0 {
				of.late, of.carried = true, false // as long as all that it has leased before, at least
				for k := range s.nodes {
					s.nodes[k].of[w].flags &^= counted
				}
			}
			count := 0
			for k := range s.nodes {
				count += int(s.nodes[k].of[w].flags&counted) / int(counted)
			}
			if count < quorum && !of.carried {
				of.phase = isOver
			}
		}
	}
	at.kind, at.who, at.number, at.renewed = leaseVacant, 0, 0, 0
}
