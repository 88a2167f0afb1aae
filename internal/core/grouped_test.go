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
//     that has it act. So answers are heard in groups.
//   - An attempt may as well begin later: when a node carries out its first request. Then it began
//     after more of the others had finished.
//   - A request that is refused changes nothing at a node. If all that its answer can do is to
//     discourage, it may as well be on its way for ever. The answer to a confirm can do more.
//   - An attempt that gives up can do no more than one that hears nothing. What it would release
//     may vanish at any moment.
type grouped struct {
	m       *model
	visit   func(*state)
	scratch []*state // one for each depth
	buffers [][]move
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
	g.buffers[depth] = from.answers(i, g.buffers[depth][:0])
	before := from.attempts[i].stand()
	for _, mv := range g.buffers[depth] {
		s := g.next(depth, from)
		violation = g.m.apply(s, mv, nil)
		switch after := s.attempts[i].stand(); {
		case violation != "":
			return violation
		case after.phase == core.Over:
		case after != before:
			g.visit(s)
		case mv.kind > last.kind || mv.kind == last.kind && mv.who > last.who:
			if violation = g.hear(s, i, mv, depth+1); violation != "" {
				return violation
			}
		}
	}
	return ""
}

// hears reports whether an answer is heard.
func (mv move) hears() bool {
	return mv.kind == hearAcquire || mv.kind == hearConfirm || mv.kind == hearExtend || mv.kind == hearRaise
}

// answers appends the moves by which an attempt hears.
func (s *state) answers(i int, moves []move) []move {
	a := &s.attempts[i]
	for n := range nNodes {
		if a.acquires[n].stage == answered {
			moves = append(moves, at(hearAcquire, i, n, 0))
		}
		for slot, msg := range a.confirms[n] {
			if msg.stage == answered {
				moves = append(moves, at(hearConfirm, i, n, slot))
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

func (a *attempt) stand() stand {
	round, outcome := a.core.Extension()
	mark, floor := a.core.Mark()
	return stand{a.core.Phase(), a.core.Token(), round, outcome == core.Carried, mark, floor}
}
