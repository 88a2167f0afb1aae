package core_test

import (
	"testing"

	"github.com/fenlock/fenlock/internal/core"
)

// A holder with the token 7 lets go, and has its leases stay: what the nodes' answers come to.
func TestKeep(t *testing.T) {
	none := core.Action{}
	type step struct {
		node int
		r    core.Reply
		want core.Action
	}
	for name, test := range map[string]struct {
		steps       []step
		reason      core.Reason
		done, clean bool // after the last step, and done not before
	}{
		"a majority has it": {[]step{{0, granted(7), none}, {1, granted(6), none}}, core.LetGo, true, true},
		"one has made it anew, and is released": {[]step{{0, granted(8), release(0)}, {1, granted(7), none},
			{2, granted(7), none}},
			core.LetGo, true, true},
		"one has made it anew, and the others do not answer": {[]step{{0, granted(8), release(0)}, {1, unknown, none},
			{2, unknown, none}},
			core.LetGo, true, false},
		"somebody else has one, and the others do not answer": {[]step{{0, lost, none}, {1, unknown, none},
			{2, rejoining, none}},
			core.LetGo, true, false},
		// What has not answered is released when it does: see below.
		"two have made it anew": {[]step{{0, granted(8), release(0)}, {1, granted(9), release(0, 1)}}, core.Taken, false,
			false},
		"somebody else has two": {[]step{{0, lost, none}, {1, lost, release(0, 1)}}, core.Taken, false, false},
		"one does not answer": {[]step{{0, unknown, none}, {1, lost, none}, {2, granted(8), release(0, 1, 2)}}, core.Taken,
			false, false},
		"the last one says that": {[]step{{0, granted(7), none}, {1, lost, none}, {2, granted(8), release(0, 1, 2)}},
			core.Taken, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := holding(t, 3)
			a.OnAcquire(2, granted(7), start)
			action := a.StartKeep(start)
			wantAction(t, action, core.Action{Op: core.Extend, To: set(0, 1, 2), Round: 1})
			for _, s := range test.steps {
				if done, _ := a.ReleaseOutcome(); done {
					t.Error("done before the last answer")
				}
				wantAction(t, a.OnExtend(s.node, action.Round, 0, s.r, validEnd), s.want) // however late
			}
			wantOver(t, &a, test.reason)
			if done, clean := a.ReleaseOutcome(); done != test.done || clean != test.clean {
				t.Errorf("done %v, clean %v; want %v, %v", done, clean, test.done, test.clean)
			}
			wantAction(t, a.StartRelease(start), none)
			wantAction(t, a.StartKeep(start), none)
			if test.reason != core.Taken {
				wantAction(t, a.OnExtend(2, 0, 0, granted(7), start), none) // of an older round
				return
			}
			// It is a release from then on.
			if len(test.steps) == 2 {
				wantAction(t, a.OnExtend(2, action.Round, 0, granted(7), start), release(2))
			}
			a.OnRelease(0, lost)
			if done, _ := a.ReleaseOutcome(); done {
				t.Error("done, and one node is free of it")
			}
			a.OnRelease(1, granted(0))
			if done, clean := a.ReleaseOutcome(); !done || !clean {
				t.Errorf("done %v, clean %v, and two are free of it", done, clean)
			}
		})
	}
	t.Run("after a loss", func(t *testing.T) {
		for _, taken := range []bool{false, true} {
			a := holding(t, 3)
			round := a.StartExtend(start).Round
			late := map[core.Reply]core.Action{granted(7): none, granted(8): release(2), lost: none}
			if taken {
				a.OnExtend(0, round, 0, lost, start)
				wantAction(t, a.OnExtend(1, round, 0, lost, start), release(0, 1, 2))
				late[granted(7)] = release(2)
			}
			wantAction(t, a.StartKeep(validEnd), none)
			if done, clean := a.ReleaseOutcome(); !done || !clean {
				t.Errorf("done %v, clean %v", done, clean)
			}
			for r, want := range late {
				b := a
				wantAction(t, b.OnExtend(2, round, 0, r, validEnd), want)
				wantOver(t, &b, a.Reason())
			}
		}
	})
	t.Run("a node that keeps requests in order", func(t *testing.T) {
		a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: testTTL, Start: start, Ordered: set(2)})
		acquire(&a, granted(7), granted(7))
		round := a.StartKeep(start).Round
		a.OnExtend(0, round, 0, lost, start)
		wantAction(t, a.OnExtend(1, round, 0, lost, start), release(0, 1, 2))
		wantAction(t, a.OnExtend(2, round, 0, granted(7), start), none) // its release is under way
	})
}
