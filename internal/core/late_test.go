package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// Answers to extensions that come late, and what is asked for meanwhile.

var silent = core.Reply{Silent: true} // not answered in time

const (
	third = start + testTTL/3
	tardy = third + testTTL/4
)

func wantUntil(t *testing.T, a *core.Attempt, want time.Duration) {
	t.Helper()
	if a.Phase() != core.Holding || a.Until() != want {
		t.Errorf("phase %d, until %v; want it held until %v", a.Phase(), a.Until()-start, want-start)
	}
}

// stalled is a lock with an extension that no node has answered in time.
func stalled(t *testing.T, nodes int) (a core.Attempt, round uint32) {
	t.Helper()
	a = holding(t, nodes)
	round = a.Renew(third).Round
	for n := range nodes {
		wantAction(t, a.OnExtend(n, round, 0, silent, third+testTTL/20), core.Action{})
	}
	return a, round
}

func TestLateAnswersCountFromTheirOwnStart(t *testing.T) {
	t.Run("of the latest round", func(t *testing.T) {
		a, round := stalled(t, 5)
		if _, s := a.Extension(); s != core.Missed {
			t.Errorf("state %d", s)
		}
		a.OnExtend(4, round, 0, granted(7), tardy)
		a.OnExtend(2, round, 0, granted(7), tardy)
		a.OnExtend(2, round, 0, granted(7), tardy) // the same once more
		wantUntil(t, &a, validEnd)
		a.OnExtend(0, round, 0, granted(7), tardy+1)
		wantUntil(t, &a, core.Validity(third, testTTL))
		if due, _ := a.ExtendDue(); due != third+testTTL/3 {
			t.Errorf("the next is due %v after the start of this one", due-third)
		}
		if _, s := a.Extension(); s != core.Carried {
			t.Errorf("state %d", s)
		}
	})
	t.Run("of an earlier round", func(t *testing.T) {
		a, first := stalled(t, 5)
		second := a.StartExtend(tardy).Round // by hand
		for _, n := range []int{0, 1} {
			a.OnExtend(n, first, 0, granted(7), tardy+1)
			wantUntil(t, &a, validEnd)
		}
		both := a
		a.OnExtend(2, first, 0, granted(7), tardy+1)
		wantUntil(t, &a, core.Validity(third, testTTL))
		if round, s := a.Extension(); round != second || s != core.Pending {
			t.Errorf("round %d, state %d: an answer to the first has decided the second", round, s)
		}
		// Two have accepted the first and one the second: all three have accepted the first.
		both.OnExtend(3, second, 0, granted(7), tardy+1)
		wantUntil(t, &both, core.Validity(third, testTTL))
		both.OnExtend(0, second, 0, granted(7), tardy+1)
		both.OnExtend(1, first, 0, granted(7), tardy+1)
		wantUntil(t, &both, core.Validity(third, testTTL))
		both.OnExtend(1, second, 0, granted(7), tardy+1)
		wantUntil(t, &both, core.Validity(tardy, testTTL))
	})
	t.Run("after the validity", func(t *testing.T) {
		a, round := stalled(t, 3)
		a.OnExtend(0, round, 0, granted(7), validEnd-1)
		a.OnExtend(1, round, 0, granted(7), validEnd)
		wantOver(t, &a, core.Expired)
	})
	t.Run("an origin past the mark", func(t *testing.T) {
		a, round := stalled(t, 3)
		a.OnExtend(0, round, 0, granted(7), tardy)
		a.OnExtend(1, round, 0, granted(8), tardy)
		wantUntil(t, &a, validEnd)
		a.OnExtend(2, round, 0, lost, tardy)
		wantOver(t, &a, core.Taken)
	})
	t.Run("many rounds ago", func(t *testing.T) {
		a, round := stalled(t, 3)
		for range 8 {
			a.StartExtend(tardy)
		}
		a.OnExtend(0, round, 0, granted(7), tardy)
		a.OnExtend(1, round, 0, granted(7), tardy)
		wantUntil(t, &a, validEnd)
	})
	t.Run("up to the maximum hold", func(t *testing.T) {
		a, _ := core.NewAttempt(core.Params{Nodes: 1, TTL: testTTL, MaxHold: testTTL + time.Second, Start: start,
			Proposal: 7})
		a.OnAcquire(0, granted(7), start)
		round := a.Renew(third).Round
		a.OnExtend(0, round, 0, silent, third+1)
		a.OnExtend(0, round, 0, granted(7), tardy)
		wantUntil(t, &a, start+testTTL+time.Second)
	})
}

// What late answers say nothing of.
func TestLateAnswersThatDoNotCount(t *testing.T) {
	accepts := func(a *core.Attempt, round uint32) {
		for n := range 3 {
			a.OnExtend(n, round, 0, granted(7), tardy+2)
		}
	}
	t.Run("after the release", func(t *testing.T) {
		for _, ordered := range []core.Set{0, set(0, 1, 2)} {
			a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: testTTL, Start: start, Proposal: 7, Ordered: ordered})
			acquire(&a, granted(7), granted(7))
			round := a.Renew(third).Round
			for n := range 3 {
				a.OnExtend(n, round, 0, silent, third+1)
			}
			wantAction(t, a.StartRelease(third+2), release(0, 1, 2))
			for n := range 3 {
				if a.Settled(n) != (ordered != 0) {
					t.Errorf("node %d, ordered %b: settled %v, and an extend of it is not answered", n, ordered, a.Settled(n))
				}
			}
			a.OnRelease(0, lost) // it has overtaken the extend
			want := release(0)
			a.OnRelease(1, granted(0))
			wantAction(t, a.OnExtend(0, round, 0, granted(7), tardy), want)
			wantAction(t, a.OnExtend(1, round, 0, lost, tardy), core.Action{})
			wantAction(t, a.OnExtend(2, round, 0, silent, tardy), core.Action{})
			if ordered == 0 {
				wantAction(t, a.OnExtend(2, round, 0, granted(7), tardy), release(2))
			} else {
				wantAction(t, a.OnExtend(2, round, 0, granted(7), tardy), core.Action{}) // its release is under way, behind it
			}
			wantOver(t, &a, core.LetGo)
			if a.Until() != validEnd {
				t.Errorf("until %v", a.Until())
			}
			for n := range 3 {
				if !a.Settled(n) {
					t.Errorf("node %d has answered all, and is not settled", n)
				}
			}
		}
	})
	t.Run("after a loss", func(t *testing.T) {
		a, round := stalled(t, 3)
		a.OnExtend(0, round, 0, lost, tardy)
		wantAction(t, a.OnExtend(1, round, 0, lost, tardy), release(0, 1, 2))
		wantAction(t, a.OnExtend(2, round, 0, granted(7), tardy), release(2))
		wantOver(t, &a, core.Taken)
		b, round := stalled(t, 3)
		b.Tick(validEnd)
		wantAction(t, b.OnExtend(0, round, 0, granted(7), validEnd), core.Action{})
		wantAction(t, b.StartRelease(validEnd), release(0, 1, 2))
		wantAction(t, b.OnExtend(1, round, 0, granted(7), validEnd), release(1))
		wantOver(t, &b, core.Expired)
	})
	t.Run("before others could share the name", func(t *testing.T) {
		a, first := stalled(t, 3)
		a.OnExtend(0, first, 0, granted(7), tardy)
		a.OnExtend(1, first, 0, unknown, tardy)
		b := a
		b.Share()
		wantAction(t, a.Renew(tardy), core.Action{Op: core.Extend, To: set(1), Round: first})
		wantAction(t, b.Renew(tardy), core.Action{Op: core.Extend, To: set(0, 1), Round: first + 1, Shared: true})
		a, first = stalled(t, 3)
		a.Share()
		second := a.StartExtend(tardy).Round
		accepts(&a, first)
		wantUntil(t, &a, validEnd)
		accepts(&a, second)
		wantUntil(t, &a, core.Validity(tardy, testTTL))
	})
	t.Run("of the round that is under way when others are to share the name", func(t *testing.T) {
		a, first := stalled(t, 3)
		second := a.StartExtend(third + 1).Round
		a.Share()
		accepts(&a, first)
		wantUntil(t, &a, core.Validity(third, testTTL))
		a.OnExtend(0, second, 0, granted(7), tardy)
		a.OnExtend(1, second, 0, granted(9), tardy)
		wantAction(t, a.OnExtend(2, second, 0, granted(7), tardy),
			core.Action{Op: core.Extend, To: set(0, 2), Token: 9, Round: second})
		wantUntil(t, &a, core.Validity(third+1, testTTL))
		third := a.StartExtend(tardy).Round
		wantAction(t, a.OnExtend(0, third, 0, granted(7), tardy),
			core.Action{Op: core.Extend, To: set(0), Token: 9, Round: third, Shared: true})
	})
	t.Run("one of an earlier round and one of a shared round", func(t *testing.T) {
		for _, shares := range []bool{false, true} {
			a, first := stalled(t, 3)
			a.OnExtend(0, first, 0, granted(7), tardy)
			want := core.Validity(third, testTTL)
			if shares {
				a.Share()
				want = validEnd
			}
			second := a.StartExtend(tardy).Round
			a.OnExtend(1, second, 0, granted(7), tardy+1)
			wantUntil(t, &a, want)
			a.OnExtend(2, second, 0, granted(7), tardy+2)
			wantUntil(t, &a, core.Validity(tardy, testTTL))
		}
	})
	t.Run("of an earlier round of a name that is shared", func(t *testing.T) {
		for _, adopted := range []bool{false, true} {
			p := core.Params{Nodes: 3, TTL: testTTL, Start: start, Proposal: 7, Shared: true}
			a, _ := core.NewAttempt(p)
			acquire(&a, granted(7), granted(7))
			if adopted {
				a, _ = core.NewAdoption(p, 7, 7)
				a.OnExtend(0, 1, 0, granted(7), start)
				a.OnExtend(1, 1, 0, granted(7), start)
			}
			first := a.StartExtend(third).Round
			second := a.StartExtend(tardy).Round
			accepts(&a, first)
			wantUntil(t, &a, validEnd)
			for n := range 3 {
				a.OnExtend(n, second, 0, silent, tardy+1)
			}
			accepts(&a, second) // which is the latest
			wantUntil(t, &a, core.Validity(tardy, testTTL))
		}
	})
}

// An export's text is spent only where an extend of the adopter's came before its release.
func TestLateAnswersSpendNoText(t *testing.T) {
	for _, ordered := range []core.Set{0, set(0, 1, 2)} {
		a, action := core.NewAdoption(core.Params{Nodes: 3, TTL: testTTL, Start: start, Ordered: ordered}, 7, 7)
		a.OnExtend(0, action.Round, 0, granted(7), start)
		a.OnExtend(1, action.Round, 0, granted(7), start)
		a.OnExtend(2, action.Round, 0, silent, start+1)
		wantAction(t, a.StartRelease(start+2), release(0, 1, 2))
		a.OnRelease(0, granted(0))
		a.OnRelease(2, lost)
		a.OnExtend(2, action.Round, 0, granted(7), start+3)
		if _, clean := a.ReleaseOutcome(); clean != (ordered != 0) {
			t.Errorf("ordered %b: clean %v, and the extend has come after the release where that can be", ordered, clean)
		}
	}
}

// A node that has not answered gets no second extend before its time is up.
func TestRenewAsksNobodyTwice(t *testing.T) {
	patience := core.Patience(testTTL)
	t.Run("a round goes on", func(t *testing.T) {
		a, round := stalled(t, 5)
		now := third + testTTL/20
		wantAction(t, a.Renew(now), core.Action{})
		if due, _ := a.ExtendDue(); due != third+patience {
			t.Errorf("nothing can be asked before %v, and it is due at %v", patience, due-third)
		}
		a.OnExtend(0, round, 0, granted(7), now)
		a.OnExtend(1, round, 0, unknown, now) // its connection broke
		a.OnExtend(2, round, 0, lost, now)
		if due, _ := a.ExtendDue(); due > now+testTTL*5/48 {
			t.Errorf("two can be asked, and that is due at %v", due-now)
		}
		wantAction(t, a.Renew(now+1), core.Action{Op: core.Extend, To: set(1, 2), Round: round})
		if _, s := a.Extension(); s != core.Pending {
			t.Errorf("state %d", s)
		}
		a.OnExtend(1, round, 0, granted(7), now+2)
		wantAction(t, a.Renew(third+patience-testTTL/64-1), core.Action{})
		wantAction(t, a.Renew(third+patience-testTTL/64), core.Action{Op: core.Extend, To: set(3, 4), Round: round})
		a.OnExtend(2, round, 0, granted(7), third+patience+1)
		wantUntil(t, &a, core.Validity(third, testTTL))
	})
	t.Run("the next round asks the others", func(t *testing.T) {
		a := holding(t, 5)
		round := a.Renew(third).Round
		for n := range 3 {
			a.OnExtend(n, round, 0, granted(7), third)
		}
		a.OnExtend(3, round, 0, unknown, third)
		b := a
		wantAction(t, a.Renew(third+patience-testTTL/64-1),
			core.Action{Op: core.Extend, To: set(0, 1, 2, 3), Round: round + 1})
		wantAction(t, b.Renew(third+patience-testTTL/64),
			core.Action{Op: core.Extend, To: set(0, 1, 2, 3, 4), Round: round + 1})
		a.OnExtend(4, round, 0, granted(7), tardy)
		wantAction(t, a.StartExtend(tardy), core.Action{Op: core.Extend, To: set(0, 1, 2, 3, 4), Round: round + 2})
	})
	t.Run("sooner towards the end", func(t *testing.T) {
		// A partition from the first extension on, in which nothing is answered, or everything with
		// an error.
		for what, r := range map[string]core.Reply{"silent": silent, "an error": unknown} {
			a := holding(t, 3)
			var asked []time.Duration
			for now := time.Duration(start); a.Phase() == core.Holding; a.Tick(now) {
				due, _ := a.ExtendDue()
				now = max(now, due)
				action := a.Renew(now)
				if action.To != 0 {
					asked = append(asked, now-start)
				}
				now += min(testTTL/20, a.Until()-now)
				for n := range 3 {
					if action.To.Has(n) {
						a.OnExtend(n, action.Round, 0, r, now)
					}
				}
			}
			// Before, each round was repeated a twelfth after it had missed.
			last, before := asked[len(asked)-1], testTTL/3+4*(testTTL/20+testTTL/12)
			if last < before {
				t.Errorf("%s: asked for the last time %v after the start, %v before late answers counted", what, last, before)
			}
			if len(asked) > 9 {
				t.Errorf("%s: asked %d times: %v", what, len(asked), asked)
			}
			t.Log(what, asked)
		}
	})
}

// A raise that no node answers is followed by another round, at all nodes.
func TestRaiseWithoutAnswers(t *testing.T) {
	for _, nodes := range []int{1, 3, 5} {
		a := holding(t, nodes)
		a.Want(9)
		round := a.StartExtend(third).Round
		for n := range nodes {
			a.OnExtend(n, round, 0, granted(7), third)
		}
		for n := range nodes {
			a.OnExtend(n, round, 9, silent, third+testTTL/20)
		}
		due, _ := a.ExtendDue()
		if due > third+testTTL/4 {
			t.Errorf("%d nodes: due %v after the raise", nodes, due-third)
		}
		if action := a.Renew(due); action.To.Len() != nodes || action.Round != round+1 {
			t.Errorf("%d nodes: %+v", nodes, action)
		}
	}
}

// Where a round trip takes longer than a round of a lock that was given, the answers come in time.
func TestGivenFarAway(t *testing.T) {
	const trip = 520 * time.Millisecond
	a := core.NewGiven(core.Params{Nodes: 3, TTL: testTTL, Start: start}, 7, start+988*time.Millisecond)
	type answer struct {
		at    time.Duration
		node  int
		round uint32
	}
	var under []answer
	for now := time.Duration(start); now < start+time.Second; now += time.Millisecond {
		for _, x := range under {
			if x.at == now {
				a.OnExtend(x.node, x.round, 0, granted(7), now)
			}
		}
		if due, ok := a.ExtendDue(); ok && due <= now {
			action := a.Renew(now)
			for n := range 3 {
				if action.To.Has(n) {
					under = append(under, answer{now + trip, n, action.Round})
				}
			}
		}
		a.Tick(now)
	}
	if a.Phase() != core.Holding || len(under) > 6 {
		t.Errorf("phase %d after %d requests", a.Phase(), len(under))
	}
}

// Five nodes. Two of them gave their leases late, past the mark, and one is behind. The caller
// extends by hand, so that it always answers an earlier round than the one under way. Its answer is
// needed, and comes late. Once the mark is raised it is not needed any more.
func TestNodeThatIsBehindRaises(t *testing.T) {
	const step = testTTL / 20
	a := holding(t, 5)
	asked := map[uint32]core.Action{} // of node 0, by the round
	for i := range 40 {
		now := start + time.Duration(i+1)*step
		round := a.StartExtend(now).Round
		for n := 1; n < 5; n++ {
			origin := fence.Token(7)
			if mark, _ := a.Mark(); n < 3 {
				origin = max(9, mark)
			}
			if raise := a.OnExtend(n, round, 0, granted(origin), now); raise.Op == core.Extend && raise.To.Has(n) {
				a.OnExtend(n, round, raise.Token, granted(origin), now)
			}
		}
		a.OnExtend(0, round, 0, silent, now)
		const behind = 5 // rounds
		if raise, ok := asked[round-behind]; ok {
			a.OnExtend(0, raise.Round, raise.Token, granted(7), now)
		}
		if round <= behind {
			continue
		}
		if raise := a.OnExtend(0, round-behind, 0, granted(7), now); raise.Op == core.Extend {
			if raise.To.Has(0) {
				asked[round] = raise
			}
			for n := 3; n < 5; n++ {
				if raise.To.Has(n) {
					a.OnExtend(n, raise.Round, raise.Token, granted(7), now)
				}
			}
		}
	}
	if mark, _ := a.Mark(); a.Phase() != core.Holding || mark != 9 || len(asked) != 1 {
		t.Errorf("phase %v, mark %d, node 0 was asked to raise %d times", a.Phase(), mark, len(asked))
	}
}

// Five nodes. Two of them gave their leases late, past the mark. A late answer of node 0 has the
// mark raised in a round that is not carried. Node 0 loses its lease then. The other four count.
func TestRaiseMakesRefusalsCount(t *testing.T) {
	a := holding(t, 5)
	origins := []fence.Token{7, 9, 9, 7, 7}
	extend := func(now time.Duration) (round uint32) {
		round = a.StartExtend(now).Round
		for n := 1; n < 5; n++ {
			a.OnExtend(n, round, 0, granted(origins[n]), now)
		}
		return round
	}
	first, second := extend(start+1), extend(start+2)
	raise := core.Action{Op: core.Extend, To: set(0, 3, 4), Token: 9, Round: second}
	wantAction(t, a.OnExtend(0, first, 0, granted(7), start+2), raise)
	for _, n := range []int{0, 3, 4} {
		a.OnExtend(n, second, 9, granted(7), start+3)
	}
	wantAction(t, a.OnExtend(0, second, 0, lost, start+3), core.Action{})
	due, _ := a.ExtendDue()
	wantAction(t, a.Renew(due), core.Action{Op: core.Extend, To: set(0, 1, 2), Round: second})
	a.OnExtend(1, second, 0, granted(9), due)
	if _, s := a.Extension(); a.Phase() != core.Holding || s != core.Carried {
		t.Errorf("phase %d, reason %d, state %d", a.Phase(), a.Reason(), s)
	}
}

// An answer is counted after a round has begun, by a clock that was read before. The raise that it
// begins is of that round, and so is each answer to it. No other raise to the same number may be.
func TestRaisesOfOneRound(t *testing.T) {
	a := holding(t, 3)
	const read = start + testTTL/4
	first := a.StartExtend(read).Round
	a.OnExtend(2, first, 0, granted(9), read)
	a.OnExtend(1, first, 0, granted(7), read)
	const began = read + testTTL/2
	second := a.StartExtend(began).Round
	a.OnExtend(2, second, 0, granted(9), began)
	raise := core.Action{Op: core.Extend, To: set(0), Token: 9, Round: second}
	wantAction(t, a.OnExtend(0, first, 0, granted(7), read+1), raise)
	for n := range 2 {
		a.OnExtend(n, second, 0, granted(7), began)
	}
	end := core.Validity(began, testTTL)
	wantUntil(t, &a, end)
	for _, now := range []time.Duration{core.Validity(read+1, testTTL), end - 1, end} {
		wantAction(t, a.OnExtend(2, second, 0, granted(9), now), core.Action{})
	}
	wantOver(t, &a, core.Expired)
}
