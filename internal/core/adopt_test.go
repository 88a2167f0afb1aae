package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// exported returns a lock with token and mark 7 that was exported with that mark, while node 2 has
// not answered.
func exported(t *testing.T, ordered core.Set) core.Attempt {
	t.Helper()
	a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: testTTL, Start: start, Proposal: 7, Ordered: ordered})
	acquire(&a, granted(7), granted(7))
	mark := a.OfferExport()
	if mark != 7 || a.Export(mark, start) {
		t.Fatalf("exported with the mark %d before registers were raised past it", mark)
	}
	round := a.StartExtend(start).Round
	a.OnExtend(0, round, 0, granted(7), start)
	wantAction(t, a.OnExtend(1, round, 0, granted(7), start),
		core.Action{Op: core.Extend, To: set(0, 1), Token: 8, Round: round})
	a.OnExtend(0, round, 8, granted(7), start)
	if a.Export(mark, start) {
		t.Fatal("exported before a majority has raised its registers")
	}
	a.OnExtend(1, round, 8, granted(7), start)
	if !a.Export(mark, validEnd-1) {
		t.Fatal("not exported")
	}
	wantOver(t, &a, core.Exported)
	return a
}

func TestExport(t *testing.T) {
	t.Run("nothing is sent any more", func(t *testing.T) {
		for _, ordered := range []core.Set{0, set(0, 1, 2)} {
			a := exported(t, ordered)
			none := core.Action{}
			wantAction(t, a.StartExtend(start), none)
			wantAction(t, a.StartRelease(start), none)
			wantAction(t, a.StartKeep(start), none)
			wantAction(t, a.Cancel(), none)
			for _, r := range []core.Reply{granted(7), granted(9), lost, unknown, rejoining} {
				b := a
				wantAction(t, b.OnExtend(2, 1, 0, r, start), none)
				wantAction(t, b.OnExtend(2, 1, 8, r, start), none)
				wantAction(t, b.OnAcquire(2, r, start), none)
				wantAction(t, b.OnLateAcquire(2, r, 0), none)
				wantOver(t, &b, core.Exported)
			}
			if _, due := a.ExtendDue(); due || a.Export(7, start) {
				t.Error("it goes on")
			}
		}
	})
	t.Run("not what is over", func(t *testing.T) {
		a := holding(t, 3)
		mark := a.OfferExport()
		round := a.StartExtend(start).Round
		for i := range 2 {
			a.OnExtend(i, round, 0, granted(7), start)
		}
		for i := range 2 {
			a.OnExtend(i, round, 8, granted(7), start)
		}
		late, gone := a, a
		if late.Export(mark, validEnd) {
			t.Error("exported after the validity")
		}
		wantOver(t, &late, core.Expired)
		gone.StartRelease(start)
		if gone.Export(mark, start) {
			t.Error("exported after its release")
		}
		wantOver(t, &gone, core.LetGo)
		if !a.Export(mark, validEnd-1) {
			t.Error("not exported a nanosecond before its end")
		}
	})
}

func TestAdoption(t *testing.T) {
	adopting := func(maxHold time.Duration) (core.Attempt, core.Action) {
		return core.NewAdoption(core.Params{Nodes: 3, TTL: testTTL, Start: start, MaxHold: maxHold}, 7, 9)
	}
	none := core.Action{}
	// Each answer of nodes 0, 1 and 2, and what they come to.
	for name, test := range map[string]struct {
		answers []core.Reply
		action  core.Action // of the last one
		want    core.Reason // NotOver: it holds, after that and not before
	}{
		"a majority that counts":       {[]core.Reply{granted(7), granted(9)}, none, core.NotOver},
		"after one that does not":      {[]core.Reply{lost, granted(7), granted(9)}, none, core.NotOver},
		"after one that knows nothing": {[]core.Reply{unknown, granted(7), granted(7)}, none, core.NotOver},
		"a lease that began past it": {[]core.Reply{granted(10), granted(7), granted(7)},
			core.Action{Op: core.Extend, To: set(1, 2), Token: 10, Round: 1}, core.NotOver},
		"two that began past it":          {[]core.Reply{granted(10), granted(11)}, release(0, 1, 2), core.Taken},
		"somebody else's":                 {[]core.Reply{granted(7), lost, lost}, release(0, 1, 2), core.Taken},
		"too few that answer":             {[]core.Reply{granted(7), unknown, unknown}, none, core.NoQuorum},
		"too few that vote":               {[]core.Reply{rejoining, rejoining}, none, core.NoQuorum},
		"too few, and one does not count": {[]core.Reply{granted(7), unknown, lost}, none, core.NoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			a, action := adopting(0)
			wantAction(t, action, core.Action{Op: core.Extend, To: set(0, 1, 2), Floor: 10, Round: 1})
			for node, r := range test.answers {
				if a.Phase() != core.Adopting || a.WasHeld() {
					t.Fatalf("phase %d before answer %d", a.Phase(), node)
				}
				wantAction(t, a.StartExtend(start), none)
				wantAction(t, a.StartRelease(start), none)
				a.Tick(start)
				action = a.OnExtend(node, 1, 0, r, start+1)
			}
			wantAction(t, action, test.action)
			if test.want != core.NotOver {
				wantOver(t, &a, test.want)
				if last := len(test.answers); last < 3 { // what comes late is released, if that is
					late := map[core.Reason]core.Action{core.Taken: release(last)}[test.want]
					wantAction(t, a.OnExtend(last, 1, 0, granted(7), start+1), late)
				}
				return
			}
			due, _ := a.ExtendDue()
			if a.Phase() != core.Holding || a.Until() != validEnd || a.Token() != 7 || due > start+testTTL/3 {
				t.Errorf("phase %d, until %v, token %d, due %v", a.Phase(), a.Until(), a.Token(), due)
			}
			if mark, _ := a.Mark(); mark != 9 {
				t.Errorf("mark %d", mark)
			}
		})
	}
	t.Run("too late to the nanosecond", func(t *testing.T) {
		for maxHold, end := range map[time.Duration]time.Duration{0: validEnd, time.Second: start + time.Second,
			time.Hour: validEnd} {
			a, _ := adopting(maxHold)
			a.OnExtend(0, 1, 0, granted(7), start)
			b := a
			a.OnExtend(1, 1, 0, granted(7), end-1)
			if a.Phase() != core.Holding || a.Until() != end {
				t.Errorf("phase %d until %v", a.Phase(), a.Until())
			}
			if end == validEnd {
				wantAction(t, b.OnExtend(1, 1, 0, granted(7), end), none)
				wantOver(t, &b, core.TooLate)
				continue
			}
			c := b // the maximum hold is over: that ends the lock, once it is known to be there
			wantAction(t, b.OnExtend(1, 1, 0, unknown, end), none)
			wantAction(t, b.OnExtend(2, 1, 0, unknown, end), none)
			wantOver(t, &b, core.NoQuorum)
			wantAction(t, c.OnExtend(1, 1, 0, granted(7), end), release(0, 1, 2))
			wantOver(t, &c, core.HeldTooLong)
			wantAction(t, c.OnExtend(2, 1, 0, granted(7), end), release(2))
		}
	})
	t.Run("given up", func(t *testing.T) {
		a, _ := adopting(0)
		wantAction(t, a.Cancel(), none)
		wantOver(t, &a, core.Cancelled)
		for i := range 3 {
			wantAction(t, a.OnExtend(i, 1, 0, granted(7), start), none)
		}
	})
	t.Run("released as any other", func(t *testing.T) {
		a, _ := adopting(0)
		a.OnExtend(0, 1, 0, granted(7), start)
		a.OnExtend(1, 1, 0, granted(7), start)
		wantAction(t, a.StartRelease(start), release(0, 1))
		wantAction(t, a.OnExtend(2, 1, 0, granted(fence.Token(7)), start), release(2))
	})
}
