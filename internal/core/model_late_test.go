package core_test

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// Answers to extensions that come late, when another one has begun, and extensions that go on: the
// nodes that have refused are asked again. Each search with rounds has the first half of that:
// requests of earlier rounds that are carried out late.

// lateMoves appends the steps of an extension that goes on.
func (m *model) lateMoves(a *attempt, i int, moves []move) []move {
	if !m.late || a.core.Phase() != core.Holding {
		return moves
	}
	round, _ := a.core.Extension()
	if again := a.core; m.goesOn && round > 0 {
		if action := again.Renew(now); action.To != 0 && action.Round == round {
			moves = append(moves, at(goOn, i, 0, 0))
		}
	}
	for n := range nNodes {
		for round, late := range a.extends[n].lates {
			if late.stage == answered {
				moves = append(moves, at(hearLate, i, n, round))
			}
		}
	}
	return moves
}

// roundsOf returns how often an attempt extends.
func (m *model) roundsOf(i int) int {
	if m.first && i > 0 {
		return 0
	}
	return m.rounds
}

// overtake is what becomes of a node's reply when a round begins that asks it.
func (m *model) overtake(x *extends, round uint32) {
	if m.late && x.reply.stage == answered && round > 1 {
		x.lates[round-1] = x.reply
	}
}

// hearLate delivers the reply of an earlier round.
func (m *model) hearLate(s *state, i, n int, round uint8, t *trace) (violation string) {
	a := &s.attempts[i]
	reply := a.extends[n].lates[round].reply()
	a.extends[n].lates[round] = message{}
	of := uint32(round)
	if m.broken.latesAsNew {
		of, _ = a.core.Extension()
	}
	if m.broken.latesForAll {
		a.core.CountAll()
	}
	m.carryOut(s, i, a.core.OnExtend(n, of, 0, reply, now))
	t.say("%s hears late of its extend of round %d at node %d: %s; its validity counts from round %d", name(i), round, n+1,
		words(reply), a.core.Sure())
	if _, outcome := a.core.Extension(); a.tainted && outcome == core.Carried {
		return fmt.Sprintf("%s's latest extension is carried, but when it started the lock was no longer %s's", name(i),
			name(i))
	}
	return m.uncertain(a, i)
}

// uncertain reports a validity that counts from a round which began when it was too late.
func (m *model) uncertain(a *attempt, i int) (violation string) {
	if sure := a.core.Sure(); m.late && a.taints&(1<<sure) != 0 {
		return fmt.Sprintf("%s's validity counts from its extension %d, but when that started the lock was no longer %s's",
			name(i), sure, name(i))
	}
	return ""
}

// mayTaint reports whether a round may still count that must not.
func (a *attempt) mayTaint() bool { return a.taints>>(a.core.Sure()+1) != 0 }

// counting returns the rounds, a bit for each, of which the acceptance by a node may still count.
func (m *model) counting(a *attempt, n int, alive bool) (rounds uint8) {
	if !m.late || !alive || a.core.Phase() != core.Holding {
		return 0
	}
	for round := 1; round <= m.rounds; round++ {
		if a.core.Matters(n, uint32(round)) || m.broken.latesForAll {
			rounds |= 1 << round
		}
	}
	return rounds
}

// forgetLates drops late replies that change nothing. One with an origin past the mark may count
// once the mark is raised.
func (m *model) forgetLates(a *attempt, n int, alive bool) {
	for round := range a.extends[n].lates {
		late := &a.extends[n].lates[round]
		if m.counting(a, n, alive)&(1<<round) == 0 || late.status != core.Granted {
			*late = message{}
		}
	}
}

// time is what an attempt takes for now: a moment at which its validity is over, if it is.
func (a *attempt) time(still bool) time.Duration {
	if a.overdue && !still {
		return now + ttl
	}
	return now
}

// otherMoves appends, for the variant in which attempts are mixed up, that another one hears of
// what a node has granted.
func (m *model) otherMoves(s *state, i, n int, moves []move) []move {
	granted := s.attempts[i].acquires[n].stage == answered && s.attempts[i].acquires[n].status == core.Granted
	if m.broken.grantsMixed && granted && s.other(i, n) >= 0 {
		moves = append(moves, at(hearOther, i, n, 0))
	}
	return moves
}

// other returns an attempt that waits for a node's answer to its acquire, -1: there is none.
func (s *state) other(i, n int) int {
	for j := range s.attempts {
		b := &s.attempts[j]
		if j != i && b.begun && b.core.Phase() == core.Acquiring && b.acquires[n].stage != nothing {
			return j
		}
	}
	return -1
}

// hearOther delivers a grant to another attempt.
func (m *model) hearOther(s *state, i, n int, t *trace) (violation string) {
	j := s.other(i, n)
	b := &s.attempts[j]
	reply := s.attempts[i].acquires[n].reply()
	s.attempts[i].acquires[n], b.acquires[n] = message{}, message{}
	m.carryOut(s, j, b.core.OnAcquire(n, reply, now))
	t.say("%s hears of %s's acquire at node %d as if it was its own: %s", name(j), name(i), n+1, words(reply))
	if b.core.Phase() == core.Holding {
		return m.wrongToken(s, j)
	}
	return ""
}
