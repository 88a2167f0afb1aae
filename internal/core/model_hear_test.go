package core_test

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// What an attempt of the search does when it hears an answer, and which promise that breaks.

// hear delivers the reply of an acquire or a confirm, or the news that there is none. It checks the
// tokens if the attempt holds from now on.
//
// Other requests need no timeout. An acquire or an extend that timed out has no effect on an
// Attempt but to bring it nearer to giving up. If its caller waits, it goes on: see silences. What
// an attempt that gave up does, an attempt to which nothing is delivered any more does, too.
func (m *model) hear(s *state, mv move, t *trace) (violation string) {
	i, n := mv.attempt(), mv.node()
	a := &s.attempts[i]
	held := a.wasHeld()
	var action core.Action
	var reply core.Reply
	var asked fence.Token
	switch mv.kind {
	case hearAcquire:
		reply = a.acquires[n].reply()
		a.acquires[n] = message{}
		if m.repeats {
			a.acquires[n].stage = request
		}
		late := a.core.IsSilent(n)
		switch round, _ := a.core.Extension(); {
		case m.broken.grantsExtend && a.core.Phase() == core.Holding && round > 0 && reply.Status == core.Granted:
			action = a.core.OnExtend(n, round, 0, reply, now)
			violation = a.carriedWrongly(i)
		case late:
			action = a.core.OnLateAcquire(n, reply, a.time(m.broken.grantsOutlive))
		default:
			action = a.core.OnAcquire(n, reply, a.time(false))
		}
	case silence:
		reply = core.Reply{Silent: true}
		action = a.core.OnAcquire(n, reply, a.time(false))
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
		action = a.core.OnConfirm(n, asked, reply, a.time(m.broken.grantsOutlive))
	}
	if m.broken.noConfirm && action.Op == core.Confirm {
		for n := range quorum {
			a.core.OnConfirm(n, action.Token, core.Reply{Status: core.Granted, Register: action.Token}, now)
		}
		action = core.Action{}
	}
	m.carryOut(s, i, action)
	finished := !held && a.core.Phase() == core.Holding
	if t != nil {
		what := "acquire"
		if mv.kind != hearAcquire && mv.kind != silence {
			what = fmt.Sprintf("confirm of %d", asked)
		}
		t.say("%s hears of its %s at node %d: %s%s", name(i), what, n+1, words(reply), m.outcome(a, action, finished))
	}
	if finished {
		m.did(s, i)
		return cmp.Or(m.wrongToken(s, i), m.outrun(s))
	}
	return violation
}

// outrun looks for a token that is not past the mark of a holder with a smaller one. Only where
// marks are wanted the states know those of the attempts that are over.
func (m *model) outrun(s *state) (violation string) {
	if m.wants == nil {
		return ""
	}
	for i := range m.attempts {
		a := &s.attempts[i].core
		mark, _ := a.Mark()
		for j := range m.attempts {
			b := &s.attempts[j].core
			if s.attempts[i].wasHeld() && s.attempts[j].wasHeld() && a.Token() < b.Token() && b.Token() <= mark &&
				!s.lets(i, j) {
				return fmt.Sprintf("%s has the token %d and the mark %d, but %s has %d", name(i), a.Token(), mark, name(j),
					b.Token())
			}
		}
	}
	return ""
}

func (m *model) wrongToken(s *state, i int) (violation string) {
	token := s.attempts[i].core.Token()
	for j := range m.attempts {
		b := &s.attempts[j].core
		if j == i || !s.attempts[j].wasHeld() {
			continue
		}
		same := b.Token() == token && !s.readers(i, j)
		if same {
			violation = fmt.Sprintf("tokens are unique: %s and %s both have %d", name(j), name(i), token)
		}
		if s.attempts[i].after&(1<<j) != 0 && (same || b.Token() > token) {
			return fmt.Sprintf("%s%s began after %s had finished: %s has %d, %s has %d",
				strings.TrimPrefix(violation+"; ", "; "),
				name(i), name(j), name(j), b.Token(), name(i), token)
		}
	}
	return violation
}

// tooLate reports whether an extension that starts now must not be carried. A client with a larger
// token has held, or the operator has released the lock by force.
func (m *model) tooLate(s *state, i int) bool {
	a := &s.attempts[i]
	for j := range m.attempts {
		b := &s.attempts[j].core
		if j != i && s.attempts[j].wasHeld() && b.Token() > a.core.Token() && (!s.lets(i, j) || a.alone) {
			return true
		}
	}
	return a.ordered && m.released(s)
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
	if mark, _ := a.core.Mark(); m.broken.adopterRaises && a.core.Phase() == core.Adopting &&
		reply.Status == core.Granted {
		a.core.SetMark(max(mark, reply.Register))
	}
	action := a.core.OnExtend(n, round, 0, seen, now)
	if action.Op != core.None && m.broken.raisesUnasked {
		a.core.SetMark(action.Token)
	}
	m.carryOut(s, i, action)
	_, outcome := a.core.Extension()
	if outcome == core.Carried {
		m.did(s, i)
	}
	if t != nil {
		t.say("%s hears of its extend of round %d at node %d: %s%s", name(i), round, n+1, words(reply),
			map[bool]string{true: ", carried"}[outcome == core.Carried])
		if action.Op != core.None {
			t.say("%s asks those that count to raise their registers to %d", name(i), action.Token)
		}
	}
	return cmp.Or(a.carriedWrongly(i), m.uncertain(a, i))
}

// carriedWrongly reports an extension that is carried and must not be.
func (a *attempt) carriedWrongly(i int) (violation string) {
	round, outcome := a.core.Extension()
	switch {
	case !a.tainted || outcome != core.Carried:
		return ""
	case a.adopted:
		return fmt.Sprintf("%s's lock is adopted, but it was no longer %s's", name(i), name(i))
	}
	return fmt.Sprintf("%s's extension %d is carried, but when it started the lock was no longer %s's", name(i), round,
		name(i))
}

// hearRaise delivers the reply to an extend that raises the mark.
func (m *model) hearRaise(s *state, i, n int, t *trace) {
	a := &s.attempts[i]
	said := a.extends[n].agreed
	reply := said.reply()
	a.extends[n].agreed = message{}
	mark, floor := a.core.Mark()
	seen, asked := reply, fence.Token(said.asked)
	switch {
	case m.broken.raisesByNew && reply.Status == core.Granted && reply.Register <= floor:
		seen.Register = 0
	case m.broken.raisesByLost && reply.Status == core.Lost:
		seen = core.Reply{Status: core.Granted}
	case m.broken.raisesByOther:
		asked = floor
		a.core.RaiseAnew()
	case m.broken.raisesByOld:
		a.core.RaiseAnew()
	}
	m.carryOut(s, i, a.core.OnExtend(n, uint32(a.extends[n].agreedIn), asked, seen, now))
	if m.broken.raisesByFew && seen.Status == core.Granted && seen.Register <= mark {
		a.core.SetMark(max(mark, floor))
	}
	if t != nil {
		after, _ := a.core.Mark()
		t.say("%s hears of its extend with floor %d at node %d: %s%s", name(i), said.asked, n+1, words(reply),
			map[bool]string{true: fmt.Sprintf(", and its mark is %d", after)}[after != mark])
	}
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
