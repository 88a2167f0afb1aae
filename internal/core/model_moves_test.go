package core_test

import (
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// The steps of the search: which may come next in a state.

// moves appends every step that may come next.
func (m *model) moves(s *state, moves []move) []move {
	if !m.undecided(s) {
		return moves
	}
	begun := true
	for i := range m.attempts {
		a := &s.attempts[i]
		if !a.begun {
			if begun && (!m.inTurn || i == 0 || s.attempts[i-1].wasHeld()) {
				// The attempts are interchangeable: they begin in order.
				for _, p := range m.proposals {
					moves = append(moves, at(begin, i, 0, int(p)))
					if m.shares {
						moves = append(moves, at(begin, i, 1, int(p)))
					}
				}
				if m.gives > 0 {
					moves = append(moves, at(begin, i, 2, 0))
				}
			}
			begun = false
			continue
		}
		for n := range nNodes {
			moves = m.messageMoves(s, i, n, moves)
		}
		if round, _ := a.core.Extension(); a.core.Phase() == core.Holding && int(round) < m.roundsOf(i) &&
			(!m.exports || a.adopted) {
			moves = append(moves, at(startExtend, i, 0, 0))
			if m.downgrade && a.shared > maxRounds {
				for _, w := range append([]uint8{0}, m.wants...) {
					moves = append(moves, at(startExtend, i, 1, int(w)))
				}
			}
			if m.broken.unshares && a.shares() {
				moves = append(moves, at(startExtend, i, 1, 0))
			}
			for _, w := range m.wants {
				moves = append(moves, at(startExtend, i, 0, int(w)))
			}
		}
		if _, raising := a.core.Raising(); m.givesUp && raising && m.alive(s, i) {
			moves = append(moves, at(giveUpRaise, i, 0, 0))
		}
		if m.silences && a.core.MayHurry() {
			moves = append(moves, at(hurry, i, 0, 0))
		}
		moves = m.lateMoves(a, i, moves)
		moves = m.exportMoves(s, i, moves)
		moves = m.giveMoves(s, i, moves)
	}
	return m.nodeMoves(s, moves)
}

func (m *model) messageMoves(s *state, i, n int, moves []move) []move {
	a, node := &s.attempts[i], &s.nodes[n]
	own, leased := node.has(i), node.leased() != 0
	switch a.acquires[n].stage {
	case request:
		// What happens to the register of a lease that stays matters later.
		moves = m.with(s, n, at(runAcquire, i, n, 0), true, !leased || a.shared == 0, moves)
		moves = m.open(s, n, at(runAcquire, i, n, 0), a.shared == 0, moves)
		moves = m.kept(s, i, n, at(runAcquire, i, n, 0), moves)
		if m.mayStray(s, n) {
			moves = append(moves, at(runStray, i, n, 0))
		}
	case answered:
		moves = append(moves, at(hearAcquire, i, n, 0))
	}
	if stage := a.acquires[n].stage; m.silences && (stage == request || stage == answered) &&
		a.core.Phase() == core.Acquiring && !a.core.IsSilent(n) {
		moves = append(moves, at(silence, i, n, 0))
	}
	moves = m.otherMoves(s, i, n, moves)
	for slot, msg := range a.confirms[n] {
		switch msg.stage {
		case request, orphan:
			moves = m.with(s, n, at(runConfirm, i, n, slot), own, own || m.broken.confirmAnyway, moves)
			if m.broken.takesKept() {
				moves = m.kept(s, i, n, at(runConfirm, i, n, slot), moves)
			}
		case answered:
			moves = append(moves, at(hearConfirm, i, n, slot))
		}
		if m.timeouts && a.core.Phase() == core.Confirming && (msg.stage == request || msg.stage == answered) {
			moves = append(moves, at(timeoutConfirm, i, n, slot))
		}
	}
	for round := 0; round <= m.rounds; round++ { // 0: one that is not waited for
		if a.extends[n].requests&(1<<round) != 0 {
			moves = m.extendMoves(s, i, n, at(runExtend, i, n, round),
				!leased || own && a.extendFloor(uint8(round)) > 0 || round >= int(a.shared) && !own, moves)
			moves = m.open(s, n, at(runExtend, i, n, round), round >= int(a.shared), moves)
		}
		if a.extends[n].raises[round] != 0 {
			moves = m.extendMoves(s, i, n, at(runRaise, i, n, round), own || !leased || round >= int(a.shared), moves)
			moves = m.open(s, n, at(runRaise, i, n, round), round >= int(a.shared), moves)
		}
	}
	if a.extends[n].reply.stage == answered {
		moves = append(moves, at(hearExtend, i, n, 0))
	}
	if a.extends[n].agreed.stage == answered {
		moves = append(moves, at(hearRaise, i, n, 0))
	}
	return moves
}

func (m *model) extendMoves(s *state, i, n int, mv move, registerMatters bool, moves []move) []move {
	moves = m.with(s, n, mv, true, registerMatters, moves)
	if m.broken.extendsReserved {
		moves = m.kept(s, i, n, mv, moves)
	}
	return moves
}

func (m *model) nodeMoves(s *state, moves []move) []move {
	out, unread := -1, 0
	for n := range s.nodes {
		if s.nodes[n].out && out < 0 {
			out = n
		} else if !s.nodes[n].read {
			unread++
		}
	}
	for n := range s.nodes {
		switch {
		case (out < 0 || m.together && !s.nodes[n].out) && s.losses > 0 &&
			(!m.exports || s.others(-1, func(a *attempt) bool { return a.exported })):
			moves = append(moves, at(loseMemory, 0, n, 0))
		case n == out && unread <= m.broken.unread:
			moves = append(moves, at(admit, 0, n, 0))
		case out >= 0 && n != out && !s.nodes[n].read && (!s.nodes[n].out || m.broken.readsOut) && m.mayRebuild(s):
			moves = m.with(s, n, at(readRegister, 0, n, 0), false, true, moves)
		}
	}
	if !m.force {
		return moves
	}
	inspected := s.count(func(n modelNode) bool { return n.inspected })
	again := s.forceNext()
	for n := range s.nodes {
		forced := s.nodes[n].forced != 0
		switch {
		case m.broken.onePass && inspected < quorum:
			if !s.nodes[n].inspected {
				moves = m.with(s, n, at(inspect, 0, n, 0), false, true, moves)
			}
		case m.broken.onePass || m.broken.noFloor:
			if !forced {
				moves = m.with(s, n, at(forceRelease, 0, n, 0), false, true, moves)
			}
		default:
			if again.Has(n) {
				moves = m.with(s, n, at(forceRelease, 0, n, 0), false, true, moves)
			}
			if again != 0 && s.jumps > 0 {
				moves = m.with(s, n, at(forceRelease, 0, n, 1), false, true, moves)
			}
		}
	}
	return moves
}

// forceNext returns whom the operator asks next.
func (s *state) forceNext() core.Set {
	to, _ := s.force()
	return to
}

func (s *state) force() (to core.Set, floor fence.Token) {
	var answers [nNodes]fence.Token
	for n := range s.nodes {
		answers[n] = fence.Token(s.nodes[n].forced)
	}
	return core.ForceNext(answers[:])
}

// released reports whether the operator's force release is done.
func (m *model) released(s *state) bool {
	if m.broken.onePass || m.broken.noFloor {
		return s.count(func(n modelNode) bool { return n.forced != 0 }) >= quorum
	}
	return m.force && s.forceNext() == 0
}

// mayRebuild is the quarantine: every attempt from before the loss has either
// finished or run out of validity. That it ran out needs no move: it will
// never hold, see undecided. Where nodes are silent, it may hear of grants
// after that: see overdue.
func (m *model) mayRebuild(s *state) bool {
	if m.broken.rebuiltEarly || m.silences {
		return true
	}
	for i := range m.attempts {
		if s.attempts[i].old {
			return false
		}
	}
	return true
}

// with appends a move at a node, with everything that may have happened there since. That is a
// lease that vanished (if there is one, and it matters), and a register that another name moved (if
// it matters).
func (m *model) with(s *state, n int, mv move, leaseMatters, registerMatters bool, moves []move) []move {
	if s.nodes[n].out {
		return append(moves, mv)
	}
	leased := s.nodes[n].leased()
	for mask := range leased + 1 {
		if mask&^leased != 0 || mask != 0 && !leaseMatters {
			continue
		}
		vanish, mv := mask != 0, mv
		if mv.vanish = mask; mask == leased && vanish {
			mv.vanish = everybody
		}
		moves = append(moves, mv)
		if (registerMatters || vanish) && s.bumps > 0 {
			if m.bumpBy == nil {
				mv.prelude |= 1 << 2
				moves = append(moves, mv)
				mv.prelude &^= 1 << 2
			}
			for _, by := range m.bumpBy {
				mv := mv
				mv.prelude |= by << 2
				moves = append(moves, mv)
			}
		}
	}
	return moves
}

// kept appends a move at a node that keeps the name for a waiter when the operation gets there.
// That is all that queues of waiters, of any length and in any order, add to a node. It is a lease
// of another kind of holder. It appears whenever the name is free, refuses all requests, and moves
// no register. The lease is gone whenever that suits (it expires, its waiter claims it or gives it
// up). Since it may come and go at any moment, it is there for one operation and in no state.
//
// It is left out where it changes nothing, under the shipped rules:
//   - at a node that is out, which refuses before it looks at the lease;
//   - before an operation that is not waited for: refused, it is as if it had never arrived, which
//     it may do without a queue;
//   - while the lease is another attempt's: the refusal is the same, and that
//     lease may vanish later just as well. The attempt's own lease refuses an
//     acquire too, but not an extend: there it may vanish first;
//   - before a confirm, to which a lease that is another's and one that is gone
//     are the same;
//   - before an extend, to which a reservation is no holder's lease, and one that vanishes;
//   - together with a register that another name moves: the operation is refused without a look at
//     it. So it may be moved before the next one.
func (m *model) kept(s *state, i, n int, mv move, moves []move) []move {
	node := &s.nodes[n]
	if !m.reserves || node.out || !m.alive(s, i) {
		return moves
	}
	switch {
	case node.leased() == 0, s.attempts[i].shared == 0 && node.shared != 0:
		// A client that wants to share a name is refused too while others share it, if another
		// waiter is first in the queue.
		moves = append(moves, mv.whileKept())
	case m.broken.takesKept():
		moves = append(moves, mv.before(true, 0).whileKept())
	}
	return moves
}
