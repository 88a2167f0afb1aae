package core_test

import (
	"cmp"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// grouped searches with fewer states: what makes no difference does not happen. It has no path that
// the search in full does not have. For each path there it has one with the same tokens, for these
// reasons:
//
//   - An answer that has an attempt do nothing may as well be heard later: just before the answer
//     that has it act. So answers are heard in groups. A confirm that times out is like an answer.
//     To ask one more node to raise its register is to act.
//   - An attempt may as well begin later: when a node carries out its first request. Then it began
//     after more of the others had finished. The order in which they begin makes no difference, or
//     they begin in turn.
//   - A request that is refused changes nothing at a node. If all that its answer can do is to
//     discourage, it may as well be on its way for ever. The answer to a confirm can do more.
//   - An attempt that gives up can do no more than one that hears nothing. What it would release
//     may vanish at any moment. A node that is out may wait for it (mayRebuild). To one other
//     attempt that makes no difference: alone, it violates nothing. A third one begins in turn,
//     after it.
//
// Models for which these reasons do not hold cannot be grouped: see mayGroup.
type grouped struct {
	m       *model
	visit   func(*state)
	scratch []*state // one for each depth
	buffers [][]move
}

// mayGroup reports whether the reasons hold for a model. In the others a refusal does more, or
// other moves than those of hears have an attempt act.
func (m *model) mayGroup() bool {
	others := m.silences || m.repeats || m.late || m.goesOn || m.exports || m.gives > 0 || m.shares ||
		m.downgrade || m.broken.raisesByLost
	return !others && (m.inTurn || !m.first && (m.attempts < 3 || m.losses == 0))
}

// next copies a state to the scratch of a depth.
func (g *grouped) next(depth int, from *state) *state {
	for len(g.scratch) <= depth {
		g.scratch, g.buffers = append(g.scratch, new(state)), append(g.buffers, nil)
	}
	*g.scratch[depth] = *from
	return g.scratch[depth]
}

// expand visits what comes next.
func (g *grouped) expand(from *state) (violation string) {
	g.next(0, from)
	g.buffers[0] = g.m.moves(from, g.buffers[0][:0])
	for _, mv := range g.buffers[0] {
		if mv.hears() {
			continue
		}
		s := g.next(0, from)
		violation = g.m.apply(s, mv, nil)
		switch {
		case violation == "" && mv.kind == begin:
			violation = g.begun(s, mv.attempt())
		case violation == "" && !s.ignores(mv):
			g.visit(s)
		}
		if violation != "" {
			return violation
		}
	}
	for i := range g.m.attempts {
		if from.attempts[i].begun && g.m.undecided(from) && violation == "" {
			violation = g.hear(from, i, move{}, 0)
		}
	}
	return violation
}

// begun has a node carry out the first request of an attempt.
func (g *grouped) begun(from *state, i int) (violation string) {
	g.next(1, from)
	g.buffers[1] = g.buffers[1][:0]
	for n := range nNodes {
		g.buffers[1] = g.m.messageMoves(from, i, n, g.buffers[1])
	}
	for _, mv := range g.buffers[1] {
		s := g.next(1, from)
		if violation = cmp.Or(violation, g.m.apply(s, mv, nil)); violation == "" && !s.ignores(mv) {
			g.visit(s)
		}
	}
	return violation
}

// hear visits the states in which an attempt has heard a group of answers, and acts. The order of
// those before the last makes no difference.
func (g *grouped) hear(from *state, i int, last move, depth int) (violation string) {
	g.next(depth, from)
	g.buffers[depth] = g.m.answers(from, i, g.buffers[depth][:0])
	before := from.attempts[i].stands()
	for _, mv := range g.buffers[depth] {
		s := g.next(depth, from)
		violation = g.m.apply(s, mv, nil)
		switch after := s.attempts[i].stands(); {
		case violation != "":
			return violation
		case after.phase == core.Over:
		case after.stand != before.stand || after.asks(before):
			g.visit(s)
		case mv.kind > last.kind || mv.kind == last.kind && mv.who > last.who:
			if violation = g.hear(s, i, mv, depth+1); violation != "" {
				return violation
			}
		}
	}
	return ""
}

// hears reports whether an answer is heard, or that there is none.
func (mv move) hears() bool {
	return mv.kind == hearAcquire || mv.kind == hearConfirm || mv.kind == hearExtend || mv.kind == hearRaise ||
		mv.kind == timeoutConfirm
}

// answers appends the moves by which an attempt hears.
func (m *model) answers(s *state, i int, moves []move) []move {
	a := &s.attempts[i]
	confirming := a.core.Phase() == core.Confirming
	for n := range nNodes {
		if a.acquires[n].stage == answered {
			moves = append(moves, at(hearAcquire, i, n, 0))
		}
		for slot, msg := range a.confirms[n] {
			if msg.stage == answered {
				moves = append(moves, at(hearConfirm, i, n, slot))
			}
			if m.timeouts && confirming && (msg.stage == request || msg.stage == answered) {
				moves = append(moves, at(timeoutConfirm, i, n, slot))
			}
		}
		if a.extends[n].reply.stage == answered {
			moves = append(moves, at(hearExtend, i, n, 0))
		}
		if a.extends[n].agreed.stage == answered {
			moves = append(moves, at(hearRaise, i, n, 0))
		}
	}
	return moves
}

// ignores reports whether a request was refused that changes nothing then.
func (s *state) ignores(mv move) bool {
	a, n := &s.attempts[mv.attempt()], mv.node()
	switch mv.kind {
	case runAcquire:
		return a.acquires[n].stage == answered && a.acquires[n].status != core.Granted
	case runExtend:
		return a.extends[n].reply.stage == answered && a.extends[n].reply.status != core.Granted
	case runRaise:
		return a.extends[n].agreed.stage == answered && a.extends[n].agreed.status != core.Granted
	}
	return false
}

// stand is what an attempt changes by acting.
type stand struct {
	phase       core.Phase
	token       fence.Token
	round       uint32
	carried     bool
	mark, floor fence.Token
}

// stands is that, and how many requests to raise its register are on their way to each node.
type stands struct {
	stand
	raises [nNodes]int
}

// asks reports whether one more is on its way.
func (s stands) asks(before stands) bool {
	for n, raises := range s.raises {
		if raises > before.raises[n] {
			return true
		}
	}
	return false
}

func (a *attempt) stands() stands {
	round, outcome := a.core.Extension()
	mark, floor := a.core.Mark()
	s := stands{stand: stand{a.core.Phase(), a.core.Token(), round, outcome == core.Carried, mark, floor}}
	for n := range nNodes {
		for _, floor := range a.extends[n].raises {
			s.raises[n] += int(min(floor, 1))
		}
	}
	return s
}
