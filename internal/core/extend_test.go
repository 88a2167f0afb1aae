package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

func TestExtend(t *testing.T) {
	const later = start + 5*time.Second
	const extended = later + testTTL - 102*time.Millisecond
	begin := func(t *testing.T) (core.Attempt, uint32) {
		a := holding(t, 3)
		act := a.StartExtend(later)
		wantAction(t, act, core.Action{Op: core.Extend, To: set(0, 1, 2), Round: 1})
		return a, act.Round
	}
	state := func(a *core.Attempt) core.RoundState { _, s := a.Extension(); return s }

	t.Run("too late to the nanosecond", func(t *testing.T) {
		a, round := begin(t)
		a.OnExtend(0, round, 0, granted(7), later)
		b := a
		a.OnExtend(1, round, 0, granted(7), validEnd-1)
		b.OnExtend(1, round, 0, granted(7), validEnd)
		if a.Phase() != core.Holding || a.Until() != extended {
			t.Errorf("a nanosecond before the end: phase %d", a.Phase())
		}
		wantOver(t, &b, core.Expired)
	})
	t.Run("taken only when a majority refuses", func(t *testing.T) {
		a, round := begin(t)
		a.OnExtend(0, round, 0, lost, later)
		a.OnExtend(1, round, 0, unknown, later)
		if a.Phase() != core.Holding || state(&a) != core.Missed || a.Until() != validEnd {
			t.Errorf("phase %d, state %d, until %v", a.Phase(), state(&a), a.Until())
		}
		a.OnExtend(2, round, 0, lost, later)
		wantOver(t, &a, core.Taken)
	})
	t.Run("never shortens the validity", func(t *testing.T) {
		a := holding(t, 3)
		a.StartExtend(start - time.Second) // a caller's clock that went wrong
		a.OnExtend(0, 1, 0, granted(7), start)
		a.OnExtend(1, 1, 0, granted(7), start)
		if a.Until() != validEnd {
			t.Errorf("until %v, want %v", a.Until(), validEnd)
		}
	})
	t.Run("a lease that began with a register past the token does not count", func(t *testing.T) {
		a, round := begin(t)
		a.OnExtend(0, round, 0, granted(7), later)
		a.OnExtend(2, round, 0, granted(8), later)
		if state(&a) != core.Pending {
			t.Error("counted a lease that may have begun after somebody else's")
		}
		a.OnExtend(1, round, 0, granted(8), later)
		wantOver(t, &a, core.Taken)
	})
}

// Node 2 has lost the lease, and begun it again with the register 9.
func TestRaise(t *testing.T) {
	const later = start + 5*time.Second
	raising := func(t *testing.T) (a core.Attempt, round uint32) {
		a = holding(t, 3)
		round = a.StartExtend(later).Round
		wantAction(t, a.OnExtend(2, round, 0, granted(9), later), core.Action{})
		wantAction(t, a.OnExtend(0, round, 0, granted(7), later), core.Action{})
		wantAction(t, a.OnExtend(1, round, 0, granted(0), later),
			core.Action{Op: core.Extend, To: set(0, 1), Token: 9, Round: round})
		return a, round
	}
	// counts reports whether a lease that began with 9 counts from then on.
	counts := func(a core.Attempt) bool {
		round := a.StartExtend(later).Round
		a.OnExtend(0, round, 0, granted(7), later)
		a.OnExtend(2, round, 0, granted(9), later)
		_, s := a.Extension()
		return s == core.Carried
	}
	a, round := raising(t)
	if counts(a) {
		t.Error("counts before anybody has agreed")
	}
	a.OnExtend(0, round, 9, granted(7), later)
	if counts(a) {
		t.Error("counts by the word of one")
	}
	const end = later + testTTL - testTTL/100 - 2*time.Millisecond
	again := func(a *core.Attempt) { // another extension, which is carried
		next := a.StartExtend(end - 1).Round
		a.OnExtend(0, next, 0, granted(7), end-1)
		a.OnExtend(1, next, 0, granted(7), end-1)
	}
	for what, answer := range map[string]func(a *core.Attempt){
		"of the round that asked": func(a *core.Attempt) { a.OnExtend(1, round, 9, granted(0), later) },
		"that is late": func(a *core.Attempt) {
			a.OnExtend(1, round, 9, silent, later)
			a.StartExtend(later)
			a.OnExtend(1, round, 9, granted(7), later)
		},
		"within the time of a lease": func(a *core.Attempt) {
			again(a)
			a.OnExtend(1, round, 9, granted(7), end-1)
		},
	} {
		whole := a
		if answer(&whole); !counts(whole) || whole.Token() != 7 {
			t.Errorf("does not count though a quorum has agreed, by an answer %s, or the token is %d", what, whole.Token())
		}
	}
	for what, answer := range map[string]func(a *core.Attempt){
		"the same node again":           func(a *core.Attempt) { a.OnExtend(0, round, 9, granted(7), later) },
		"a lease that began since":      func(a *core.Attempt) { a.OnExtend(1, round, 9, granted(8), later) },
		"a node without the lease":      func(a *core.Attempt) { a.OnExtend(1, round, 9, lost, later) },
		"no answer":                     func(a *core.Attempt) { a.OnExtend(1, round, 9, unknown, later) },
		"an answer about another floor": func(a *core.Attempt) { a.OnExtend(1, round, 8, granted(7), later) },
		"an answer of a round before":   func(a *core.Attempt) { a.OnExtend(1, round-1, 9, granted(7), later) },
		"an answer after the time of a lease": func(a *core.Attempt) {
			again(a)
			a.OnExtend(1, round, 9, granted(7), end)
		},
		"an answer to a raise that was given up": func(a *core.Attempt) {
			again(a)
			next := a.StartExtend(end).Round
			for node, origin := range []fence.Token{7, 7, 9} {
				a.OnExtend(node, next, 0, granted(origin), end)
			}
			a.OnExtend(1, round, 9, granted(7), end)
			a.OnExtend(0, next, 9, granted(7), end)
		},
	} {
		b := a
		if answer(&b); counts(b) {
			t.Errorf("%s raises the mark", what)
		}
	}
	late := a
	late.OnExtend(1, round, 9, granted(7), late.Until())
	wantOver(t, &late, core.Expired)

	// A node that answers only when the raise has begun is asked too, since the answer of one of
	// the others may be lost. When too few are left to agree, the next round begins soon.
	lossy := holding(t, 5)
	round = lossy.StartExtend(later).Round
	for n := range 3 {
		lossy.OnExtend(n, round, 0, granted(7), later)
	}
	wantAction(t, lossy.OnExtend(3, round, 0, granted(9), later),
		core.Action{Op: core.Extend, To: set(0, 1, 2), Token: 9, Round: round})
	without := lossy
	wantAction(t, lossy.OnExtend(4, round, 0, granted(7), later),
		core.Action{Op: core.Extend, To: set(4), Token: 9, Round: round})
	for _, n := range []int{0, 1, 4} {
		if mark, _ := lossy.Mark(); mark != 7 {
			t.Errorf("the mark is %d", mark)
		}
		lossy.OnExtend(2, round, 9, unknown, later)
		lossy.OnExtend(n, round, 9, granted(7), later)
	}
	if mark, _ := lossy.Mark(); mark != 9 {
		t.Errorf("the mark is %d", mark)
	}
	if due, _ := without.ExtendDue(); due != later+testTTL/4 {
		t.Errorf("the next round is due at %v, while the raise is under way", due)
	}
	without.OnExtend(2, round, 9, unknown, later)
	if due, _ := without.ExtendDue(); due != later+testTTL/12 {
		t.Errorf("the next round is due at %v, when the raise has failed", due)
	}

	// Another node with a still larger origin: one raise at a time, and the next one when
	// that is done. Answers to the first tell nothing then.
	more := holding(t, 5)
	round = more.StartExtend(later).Round
	for n := range 3 {
		more.OnExtend(n, round, 0, granted(7), later)
	}
	wantAction(t, more.OnExtend(3, round, 0, granted(9), later),
		core.Action{Op: core.Extend, To: set(0, 1, 2), Token: 9, Round: round})
	wantAction(t, more.OnExtend(4, round, 0, granted(11), later), core.Action{})
	for n := range 2 {
		wantAction(t, more.OnExtend(n, round, 9, granted(7), later), core.Action{})
	}
	wantAction(t, more.OnExtend(2, round, 9, granted(7), later+1),
		core.Action{Op: core.Extend, To: set(0, 1, 2), Token: 11, Round: round})
	for n := range 3 {
		if mark, _ := more.Mark(); mark != 9 {
			t.Errorf("the mark is %d", mark)
		}
		wantAction(t, more.OnExtend(n, round, 9, granted(9), later+1), core.Action{})
		wantAction(t, more.OnExtend(n, round, 11, granted(9), later+1), core.Action{})
	}
	if mark, _ := more.Mark(); mark != 11 {
		t.Errorf("the mark is %d", mark)
	}
}

// No lease has begun past the mark, but its holder wants it to be 9.
func TestWant(t *testing.T) {
	const later = start + 5*time.Second
	state := func(a core.Attempt) core.RoundState { _, s := a.Extension(); return s }
	a := holding(t, 3)
	a.Want(9)
	a.Want(8) // which is less
	round := a.StartExtend(later).Round
	a.OnExtend(0, round, 0, granted(7), later)
	wantAction(t, a.OnExtend(1, round, 0, granted(0), later),
		core.Action{Op: core.Extend, To: set(0, 1), Token: 9, Round: round})
	if until := core.Validity(later, testTTL); state(a) != core.Pending || a.Until() != until {
		t.Errorf("before anybody has agreed: %v, valid until %v, want %v", state(a), a.Until(), until)
	}
	a.OnExtend(0, round, 9, granted(7), later)
	failed := a
	a.OnExtend(1, round, 9, granted(7), later)
	if mark, _ := a.Mark(); state(a) != core.Carried || mark != 9 || a.Token() != 7 {
		t.Errorf("%v, mark %d, token %d", state(a), mark, a.Token())
	}
	round = a.StartExtend(later).Round // there is nothing to be raised
	a.OnExtend(0, round, 0, granted(7), later)
	wantAction(t, a.OnExtend(1, round, 0, granted(7), later), core.Action{})
	if state(a) != core.Carried {
		t.Errorf("%v", state(a))
	}

	// Another round follows soon, and that one raises it.
	failed.OnExtend(1, round, 9, unknown, later)
	if due, _ := failed.ExtendDue(); state(failed) != core.Pending || due > later+testTTL/4 {
		t.Errorf("%v, and the next round is due at %v", state(failed), due)
	}
	round = failed.StartExtend(later + 1).Round
	failed.OnExtend(0, round, 0, granted(7), later+1)
	wantAction(t, failed.OnExtend(2, round, 0, granted(7), later+1),
		core.Action{Op: core.Extend, To: set(2), Token: 9, Round: round}) // node 0 has agreed
	failed.Tick(failed.Until())
	if state(failed) != core.Missed {
		t.Errorf("%v, after the validity", state(failed))
	}
}

func TestExtendDue(t *testing.T) {
	third, twelfth, quarter := testTTL/3, testTTL/12, testTTL/4
	due := func(a *core.Attempt, want time.Duration) {
		t.Helper()
		if got, ok := a.ExtendDue(); !ok || got != want {
			t.Errorf("due %v, %v; want %v", got, ok, want)
		}
	}
	a := newAttempt(3)
	if _, ok := a.ExtendDue(); ok {
		t.Error("due before it is held")
	}
	a = holding(t, 3)
	due(&a, start+third)
	round := a.StartExtend(start + third).Round
	due(&a, start+third+quarter) // gives up a round that stays open
	missed := a
	a.OnExtend(0, round, 0, granted(7), start+third+1)
	a.OnExtend(1, round, 0, granted(7), start+third+2)
	due(&a, start+2*third) // counted from the start of the round
	healing := a
	a.OnExtend(2, round, 0, unknown, start+third+3)
	due(&a, start+2*third)
	healing.OnExtend(2, round, 0, lost, start+third+3)
	due(&healing, start+third+3+twelfth)

	// A raise has the time that a round has, from when it is sent, however far the nodes
	// are; what is heard meanwhile does not cut it short.
	far := holding(t, 5)
	round = far.StartExtend(start).Round
	for n := range 3 {
		far.OnExtend(n, round, 0, granted(7), start+1)
	}
	raise := far.OnExtend(3, round, 0, granted(9), start+twelfth)
	due(&far, start+twelfth+quarter)
	far.OnExtend(4, round, 0, lost, start+twelfth+1)
	due(&far, start+twelfth+quarter)
	for n := range 3 {
		far.OnExtend(n, round, raise.Token, granted(7), start+2*twelfth)
	}
	due(&far, start+3*twelfth)
	missed.OnExtend(0, round, 0, unknown, start+third+1)
	missed.OnExtend(1, round, 0, unknown, start+third+2)
	if got, _ := missed.ExtendDue(); got < start+third+2+twelfth*3/4 || got > start+third+2+twelfth*5/4 {
		t.Errorf("a missed extension goes on after %v", got-start-third)
	}
	missed.Tick(validEnd)
	if _, ok := missed.ExtendDue(); ok {
		t.Error("due after the end")
	}
}

// Where leases do not end by time, their holder asks all the same whether it has them, at another
// pace. So does a holder whose validity reaches to the maximum hold.
func TestPaceOfItsOwn(t *testing.T) {
	const every = 3 * time.Second
	for _, maxHold := range []time.Duration{0, time.Hour} {
		a, _ := core.NewAttempt(core.Params{Nodes: 1, TTL: 1000 * time.Hour, Every: every, MaxHold: maxHold, Start: start,
			Proposal: 7})
		a.OnAcquire(0, granted(7), start)
		for now := time.Duration(start); now < start+10*every; now += every / 3 {
			due, is := a.ExtendDue()
			if !is || due != now+every/3 {
				t.Fatalf("maximum hold %v: due at %v (%t), want %v", maxHold, due, is, now+every/3)
			}
			round := a.StartExtend(due).Round
			if due, _ := a.ExtendDue(); due != now+every/3+every/4 {
				t.Fatalf("an extension without an answer is repeated at %v", due-now)
			}
			a.OnExtend(0, round, 0, granted(7), due)
		}
		a.OnExtend(0, a.StartExtend(start+10*every).Round, 0, unknown, start+10*every)
		if due, _ := a.ExtendDue(); due < start+10*every+every/16 || due > start+10*every+every*5/48 {
			t.Errorf("a missed extension is repeated after %v", due-(start+10*every))
		}
		a.OnExtend(0, a.StartExtend(start+11*every).Round, 0, lost, start+11*every)
		wantOver(t, &a, core.Taken)
	}
}
