package core_test

import (
	"fmt"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// A lock that one process exports and another one adopts. To the nodes both are one holder, and so
// they are one attempt here. The adopter's core takes the place of the exporter's, whose messages
// stay on their way and are not heard. What was exported is adopted at any later time, or never.

// exporting is what an attempt has of it.
type exporting struct {
	offered  uint8    // the mark that goes with it; 0: it is not to be exported
	exported bool     // it is over for the exporter
	adopted  bool     // another process has begun to adopt it
	lapsed   core.Set // the nodes that had no lease at some time between the two
	exporter *core.Attempt
}

const allNodes = 1<<nNodes - 1

// adopterFrom is the first round of an adopter: an exporter has one.
const adopterFrom = 2

// extendFloor is the floor of an extend that raises no mark.
func (a *attempt) extendFloor(round uint8) fence.Token {
	if !a.adopted || round < adopterFrom {
		return 0
	}
	return fence.Token(a.offered) + 1
}

// wasHeld reports whether the lock was held, by the exporter if not by the adopter.
func (a *attempt) wasHeld() bool { return a.exported || a.core.WasHeld() }

// onItsWay reports whether it is exported, and no adopter has come to an end.
func (a *attempt) onItsWay() bool {
	return a.exported && !a.adopted || a.core.Phase() == core.Adopting
}

// others reports whether another attempt is such a one.
func (s *state) others(i int, is func(*attempt) bool) bool {
	for j := range s.attempts {
		if j != i && is(&s.attempts[j]) {
			return true
		}
	}
	return false
}

// exportMoves appends the steps of an export. One lock is exported, and no other one is
// extended; this one is extended to be exported, and after it was adopted. Memory is lost after the
// export. What comes without an export, and before it, is what the other searches are for.
func (m *model) exportMoves(s *state, i int, moves []move) []move {
	if !m.exports {
		return moves
	}
	a := &s.attempts[i]
	round, _ := a.core.Extension()
	mark, _ := a.core.Mark()
	switch holds := a.core.Phase() == core.Holding; {
	case a.exported && !a.adopted:
		moves = append(moves, at(adoptLock, i, 0, 0), at(adoptLock, i, 0, 1))
	case a.exporter != nil && holds:
		moves = append(moves, at(exporterExtends, i, 0, 0))
	case a.exported:
	case s.others(i, func(b *attempt) bool { return b.offered != 0 }):
	case holds && a.offered == 0 && int(round) < m.rounds-1:
		moves = append(moves, at(startExtend, i, 2, 0))
	case holds && a.offered != 0 && (uint8(mark) > a.offered || m.broken.exportsUnraised) && int(round) < m.rounds:
		moves = append(moves, at(exportLock, i, 0, 0))
	}
	return moves
}

func (m *model) export(s *state, i int, t *trace) {
	a := &s.attempts[i]
	exporter := a.core
	if !a.core.Export(fence.Token(a.offered), now) {
		a.core.SetMark(fence.Token(a.offered) + 1) // see exportsUnraised
		a.core.Export(fence.Token(a.offered), now)
	}
	if m.broken.exportsRaised {
		mark, _ := a.core.Mark()
		a.offered = small(mark)
	}
	if m.broken.exporterGoesOn {
		a.exporter = &exporter
	}
	a.exported, a.tainted = true, false
	if m.tie != nil {
		m.tie.took(m.tie.group.Exported(uint64(i), uint64(a.offered)))
	}
	for n := range nNodes {
		if a.acquires[n].stage == answered {
			a.acquires[n] = message{}
		}
		for slot, msg := range a.confirms[n] {
			switch msg.stage {
			case request:
				a.confirms[n][slot].stage = orphan
			case answered:
				a.confirms[n][slot] = message{}
			}
		}
		a.extends[n].reply, a.extends[n].agreed = message{}, message{}
	}
	t.say("%s exports its lock, with the mark %d", name(i), a.offered)
}

func (m *model) adopt(s *state, i int, expired bool, t *trace) (violation string) {
	a := &s.attempts[i]
	if expired { // at once, since one that vanishes later than that is none that must not be adopted
		for n := range s.nodes {
			s.nodes[n].drop(1 << i)
		}
		s.lapse()
		t.say("%s's leases end everywhere", name(i))
	}
	round, _ := a.core.Extension()
	adoption, action := core.NewAdoption(core.Params{Nodes: nNodes, TTL: ttl}, a.core.Token(), fence.Token(a.offered))
	action = adoption.Renumber(action, round)
	a.core, a.adopted = adoption, true
	if action.Round != adopterFrom || action.Floor != a.extendFloor(adopterFrom) {
		panic(fmt.Sprintf("an adoption begins with %+v", action))
	}
	a.tainted, a.stale = m.tooLate(s, i) || a.lapsed == allNodes, false
	t.say("another process begins to adopt %s's lock%s", name(i), map[bool]string{true: ", which is gone"}[a.tainted])
	a.lapsed = 0
	m.carryOut(s, i, action)
	if m.broken.adoptsAtOnce {
		a.core.HoldAtOnce()
	}
	if a.tainted && a.core.Phase() == core.Holding {
		return fmt.Sprintf("%s's lock is adopted, but it was no longer %s's", name(i), name(i))
	}
	return ""
}

// exporterExtends has an exporter that goes on extend, by the first nodes that let it.
func (m *model) exporterExtends(s *state, i int, t *trace) (violation string) {
	a := &s.attempts[i]
	exporter := *a.exporter
	round := exporter.StartExtend(now).Round
	for n := range nNodes {
		e := s.entry(n)
		exporter.OnExtend(n, round, 0, serve(&e, node.Extend, holder(i), 0, false), now)
		s.setEntry(n, e)
	}
	a.exporter = &exporter
	t.say("the process that has exported %s's lock extends it", name(i))
	if _, state := exporter.Extension(); state == core.Carried {
		return fmt.Sprintf("two processes hold %s's lock", name(i))
	}
	return ""
}

// unheard forgets the answer to a request of an exporter.
func (m *model) unheard(a *attempt, mv move) {
	n := mv.node()
	switch mv.kind {
	case runAcquire:
		a.acquires[n] = message{}
	case runConfirm:
		a.confirms[n][mv.arg] = message{}
	}
}

// lapse notes where the leases of what was exported are not.
func (s *state) lapse() {
	for i := range s.attempts {
		a := &s.attempts[i]
		if !a.exported || a.adopted {
			continue
		}
		for n := range s.nodes {
			if !s.nodes[n].has(i) {
				a.lapsed = a.lapsed.With(n)
			}
		}
	}
}
