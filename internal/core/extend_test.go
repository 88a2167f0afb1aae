package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

func TestExtend(t *testing.T) {
	const later = start + 5*time.Second
	const extended = later + testTTL - 102*time.Millisecond
	begin := func(t *testing.T) (core.Attempt, uint32) {
		a := holding(t, 3)
		act := a.StartExtend(later)
		wantAction(t, act, core.Action{Op: core.Extend, To: set(0, 1, 2), Token: 7, Round: 1})
		return a, act.Round
	}
	state := func(a *core.Attempt) core.RoundState { _, s := a.Extension(); return s }

	t.Run("too late to the nanosecond", func(t *testing.T) {
		a, round := begin(t)
		a.OnExtend(0, round, granted(7), later)
		b := a
		a.OnExtend(1, round, granted(7), validEnd-1)
		b.OnExtend(1, round, granted(7), validEnd)
		if a.Phase() != core.Holding || a.Until() != extended {
			t.Errorf("a nanosecond before the end: phase %d", a.Phase())
		}
		wantOver(t, &b, core.Expired)
	})
	t.Run("taken only when a majority refuses", func(t *testing.T) {
		a, round := begin(t)
		a.OnExtend(0, round, lost, later)
		a.OnExtend(1, round, unknown, later)
		if a.Phase() != core.Holding || state(&a) != core.Missed || a.Until() != validEnd {
			t.Errorf("phase %d, state %d, until %v", a.Phase(), state(&a), a.Until())
		}
		a.OnExtend(2, round, lost, later)
		wantOver(t, &a, core.Taken)
	})
	t.Run("answers to an earlier round count for nothing", func(t *testing.T) {
		a, first := begin(t)
		second := a.StartExtend(later + 1).Round
		a.OnExtend(0, first, granted(7), later+1)
		a.OnExtend(1, first, granted(7), later+1)
		if first == second || state(&a) != core.Pending {
			t.Errorf("rounds %d and %d, state %d", first, second, state(&a))
		}
	})
	t.Run("never shortens the validity", func(t *testing.T) {
		a := holding(t, 3)
		a.StartExtend(start - time.Second) // a caller's clock that went wrong
		a.OnExtend(0, 1, granted(7), start)
		a.OnExtend(1, 1, granted(7), start)
		if a.Until() != validEnd {
			t.Errorf("until %v, want %v", a.Until(), validEnd)
		}
	})
	t.Run("a lease with a register past the token proves nothing", func(t *testing.T) {
		a, round := begin(t) // the acquire to node 2 is still unanswered
		a.OnExtend(0, round, granted(7), later)
		a.OnExtend(2, round, granted(9), later)
		if state(&a) != core.Pending {
			t.Error("counted a lease that a late acquire may have created")
		}
		a.OnExtend(1, round, granted(9), later) // but here the token was granted
		if state(&a) != core.Carried {
			t.Error("did not count a node where another name moved the register")
		}
	})
}

// carried extends at two nodes where the register is past the token by now, and
// reports whether that was enough.
func carried(a core.Attempt, nodes ...int) bool {
	round := a.StartExtend(start).Round
	for _, n := range nodes {
		a.OnExtend(n, round, granted(9), start)
	}
	_, s := a.Extension()
	return s == core.Carried
}

// confirmed returns an attempt that holds with 7, which the nodes have confirmed. Node 2
// has not answered the acquire.
func confirmed(nodes ...int) core.Attempt {
	a := newAttempt(3)
	acquire(&a, granted(6), granted(7))
	for _, n := range nodes {
		a.OnConfirm(n, 7, granted(7), start)
	}
	return a
}

// The two interleavings that the exhaustive check found in earlier versions:
// replies overtake each other, so what the client knows by the time that it
// hears of an acceptance says nothing about the order of execution.
func TestNoNodeBecomesSoundByAnExtend(t *testing.T) {
	// The acquire is answered before the extend that it followed. Node 2 executes:
	// extend (repaired), another's acquire, then A's late acquire: granted 9.
	a := holding(t, 3)
	first := a.StartExtend(start).Round
	a.OnAcquire(2, granted(9), start)
	a.OnExtend(2, first, granted(0), start)
	if carried(a, 0, 2) {
		t.Error("carried by a lease that came after somebody else's")
	}
	// A confirm of a lease that an extend created. Node 2 executes: extend (repaired),
	// confirm, another's acquire, then A's late acquire.
	a = confirmed(0, 1)
	a.StartExtend(start)
	a.OnConfirm(2, 7, granted(7), start)
	if carried(a, 0, 2) {
		t.Error("carried by a lease that came after somebody else's, and was confirmed")
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
	a.OnExtend(0, round, granted(7), start+third+1)
	a.OnExtend(1, round, granted(7), start+third+2)
	due(&a, start+2*third) // counted from the start of the round
	missed.OnExtend(0, round, unknown, start+third+1)
	missed.OnExtend(1, round, unknown, start+third+2)
	due(&missed, start+third+2+twelfth)
	missed.Tick(validEnd)
	if _, ok := missed.ExtendDue(); ok {
		t.Error("due after the end")
	}
}

// A node is sound if it is known to have executed the acquire with the register
// not past the token; there, a register that moved since is of no account.
func TestSoundNodes(t *testing.T) {
	if !carried(confirmed(0, 2), 0, 2) || !carried(confirmed(0, 1, 2), 0, 2) {
		t.Error("a node that confirmed is not sound: its acquire is unanswered, but was executed")
	}
	a := confirmed(0)
	a.OnAcquire(2, granted(20), start) // this lease began with a register past the token
	a.OnConfirm(1, 7, granted(7), start)
	if carried(a, 0, 2) {
		t.Error("a node that granted more than the token is sound")
	}
	a = newAttempt(3)
	acquire(&a, held, granted(7), granted(7))
	if !carried(a, 0, 1) {
		t.Error("a node that refused the acquire is not sound, though no acquire can come any more")
	}
	a = holding(t, 3)
	a.OnAcquire(2, granted(7), start)
	if !carried(a, 0, 2) {
		t.Error("a node whose grant came late, but of the token, is not sound")
	}
}
