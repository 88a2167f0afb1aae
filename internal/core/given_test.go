package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node/rule"
)

const (
	// givenFor is how long what was given at a moment is believed in: 1 s, less what clocks may
	// differ.
	givenFor = rule.ReservationTTL - 12*time.Millisecond
	clock    = 7000 * time.Second // what a node's clock shows at start
	ms       = time.Millisecond
)

// Node 0 has refused an acquire that was sent at start, when its clock showed no less than clock,
// and gives the name later. Until when does the lease count, with one node?
func TestGivenValidity(t *testing.T) {
	never := time.Duration(-1)
	refused := func(g *core.Given) { g.Refused(0, start, clock, 0, 0) }
	for name, c := range map[string]struct {
		hear  func(g *core.Given)
		until time.Duration // after start
	}{
		"nothing":             {func(*core.Given) {}, never},
		"no refusal is known": {func(g *core.Given) { g.Told(0, 8, clock, start) }, never},
		"at the refusal":      {func(g *core.Given) { refused(g); g.Told(0, 8, clock, start+500*ms) }, givenFor},
		"after it": {func(g *core.Given) { refused(g); g.Told(0, 8, clock+200*ms, start+500*ms) },
			200*ms - 4*ms + givenFor},
		"its answer comes later": {func(g *core.Given) { g.Told(0, 8, clock+200*ms, start+500*ms); refused(g) },
			200*ms - 4*ms + givenFor},
		"before the refusal":      {func(g *core.Given) { refused(g); g.Told(0, 8, clock-1, start+500*ms) }, never},
		"that is heard later":     {func(g *core.Given) { g.Told(0, 8, clock-1, start+500*ms); refused(g) }, never},
		"less than clocks differ": {func(g *core.Given) { refused(g); g.Told(0, 8, clock+ms, start+500*ms) }, givenFor},
		"its clock went back":     {func(g *core.Given) { refused(g); g.Told(0, 8, clock-time.Hour, start+500*ms) }, never},
		"its clock jumped ahead": {func(g *core.Given) { refused(g); g.Told(0, 8, clock+time.Hour, start+500*ms) },
			500*ms - 7*ms + givenFor},
		"a later refusal, before it": {func(g *core.Given) {
			refused(g)
			g.Refused(0, start+100*ms, clock+150*ms, 0, 0)
			g.Told(0, 8, clock+200*ms, start+500*ms)
		}, 100*ms + 50*ms - 2500*time.Microsecond + givenFor},
		"a later refusal, after it": {func(g *core.Given) {
			refused(g)
			g.Refused(0, start+100*ms, clock+250*ms, 0, 0)
			g.Told(0, 8, clock+200*ms, start+500*ms)
		}, never},
		"an earlier refusal that is heard last": {func(g *core.Given) {
			g.Refused(0, start+100*ms, clock+250*ms, 0, 0)
			refused(g)
			g.Told(0, 8, clock+200*ms, start+500*ms)
		}, never},
		"told by the answer":            {func(g *core.Given) { g.Refused(0, start, clock, 8, 300*ms) }, 300*ms - 12*ms},
		"and as there was much left":    {func(g *core.Given) { g.Refused(0, start, clock, 8, time.Hour) }, givenFor},
		"and as there was nothing left": {func(g *core.Given) { g.Refused(0, start, clock, 8, 0) }, -12 * ms},
		"told twice, the longer is true": {func(g *core.Given) {
			refused(g)
			g.Told(0, 8, clock+200*ms, start+500*ms)
			g.Refused(0, start, clock, 8, 300*ms)
		}, 200*ms - 4*ms + givenFor},
		"the other way round": {func(g *core.Given) {
			g.Refused(0, start, clock, 8, 300*ms)
			refused(g)
			g.Told(0, 8, clock+200*ms, start+500*ms)
		}, 200*ms - 4*ms + givenFor},
		"a newer number replaces it": {func(g *core.Given) {
			refused(g)
			g.Told(0, 7, clock+200*ms, start+500*ms)
			g.Refused(0, start, clock, 8, 300*ms)
		}, 300*ms - 12*ms},
		"an older number does not": {func(g *core.Given) {
			g.Refused(0, start, clock, 8, 300*ms)
			refused(g)
			g.Told(0, 7, clock+200*ms, start+500*ms)
		}, 300*ms - 12*ms},
	} {
		var g core.Given
		c.hear(&g)
		end := start + c.until
		number, until, ok := g.Best(1, min(end-500*ms, start))
		if want := c.until != never; ok != want || ok && (number != 8 || until != end) {
			t.Errorf("%s: %d until %v, %v; want until %v", name, number, until-start, ok, c.until)
		}
		if _, _, ok := g.Best(1, end-500*ms+1); ok && c.until != never {
			t.Errorf("%s: it counts when too little is left", name)
		}
		if _, _, ok := g.Best(1, end-500*ms); !ok && c.until != never {
			t.Errorf("%s: it does not count a nanosecond before that", name)
		}
	}
}

// told is what nodes have given: by node a number, 0 for none, each of which ends a little later
// than the one before it.
func told(numbers ...fence.Token) (g core.Given) {
	for n, number := range numbers {
		if number != 0 {
			g.Refused(n, start, clock, number, 520*ms+time.Duration(n)*80*ms)
		}
	}
	return g
}

func TestGivenQuorum(t *testing.T) {
	left := func(n int) time.Duration { return start + 520*ms + time.Duration(n)*80*ms - 12*ms }
	late := func(n int) time.Duration { return left(n) - 500*ms + 1 } // when there is too little left
	for name, c := range map[string]struct {
		nodes  int
		g      core.Given
		at     time.Duration
		number fence.Token // 0: nothing
		until  time.Duration
	}{
		"nothing":                      {3, told(), start, 0, 0},
		"one":                          {3, told(8), start, 0, 0},
		"two that differ":              {3, told(8, 9), start, 0, 0},
		"three that differ":            {3, told(8, 9, 10), start, 0, 0},
		"two":                          {3, told(8, 8), start, 8, left(0)},
		"two of three":                 {3, told(9, 8, 8), start, 8, left(1)},
		"three: the second latest end": {3, told(8, 8, 8), start, 8, left(1)},
		"one is late":                  {3, told(8, 8, 8), late(0), 8, left(1)},
		"two are":                      {3, told(8, 8, 8), late(1), 0, 0},
		"one of two is":                {3, told(8, 8), late(0), 0, 0},
		"two of five":                  {5, told(8, 8), start, 0, 0},
		"three of five":                {5, told(8, 7, 8, 9, 8), start, 8, left(0)},
		"four of five":                 {5, told(8, 8, 0, 8, 8), start, 8, left(1)},
		"half of four":                 {4, told(8, 8, 9, 9), start, 0, 0},
		"a node beyond the group":      {3, told(8, 0, 0, 8), start, 0, 0},
	} {
		number, until, ok := c.g.Best(c.nodes, c.at)
		if ok != (c.number != 0) || number != c.number || until != c.until {
			t.Errorf("%s: %d until %v, %v; want %d until %v", name, number, until, ok, c.number, c.until)
		}
	}
}

func TestGivenBack(t *testing.T) {
	g := told(8, 8, 9)
	if g.Taken() != 0 {
		t.Error("taken at first")
	}
	taken := g
	if number := g.Back(0); number != 8 {
		t.Errorf("gives %d back", number)
	}
	if number := g.Back(0); number != 0 {
		t.Errorf("gives %d back again", number)
	}
	if _, _, ok := g.Best(3, start); ok {
		t.Error("what was given back counts")
	}
	// The waiter is told of that once more, and of something older.
	for _, number := range []fence.Token{8, 7} {
		if g.Refused(0, start, clock, number, time.Second) {
			t.Errorf("%d is news, which is on its way back", number)
		}
		g.Refused(0, start, clock, 0, 0)
		g.Told(0, number, clock, start)
		if _, _, ok := g.Best(3, start); ok || g.Back(0) != 0 {
			t.Errorf("%d counts, though 8 was given back", number)
		}
	}
	if again := g; !again.Refused(0, start, clock, 9, time.Second) || again.Refused(1, start, clock, 0, 0) {
		t.Error("what is new is no news, or nothing is")
	}
	g.Told(0, 9, clock, start) // this is new
	if number, _, ok := g.Best(3, start); number != 9 || !ok {
		t.Errorf("%d, %v after it was given something again", number, ok)
	}

	all := taken
	for n, want := range []fence.Token{8, 8, 9} {
		if number := all.Back(n); number != want {
			t.Errorf("node %d is given %d back", n, number)
		}
	}
	if number, _, ok := all.Best(3, start); ok {
		t.Errorf("%d when all was given back", number)
	}

	// The release of what was given back can be carried out late. A waiter that took that number
	// after all, by the others, would lose the lease that it has there, and not hear of it.
	late := told(7)
	late.Back(0)
	for _, n := range []int{1, 2} {
		late.Refused(n, start, clock, 7, time.Second)
	}
	if number, _, ok := late.Best(3, start); ok {
		t.Errorf("takes %d, which is being given back to a node", number)
	}

	taken.Take(8)
	if taken.Taken() != 8 || taken.Back(0) != 0 || taken.Back(1) != 0 || taken.Back(2) != 9 {
		t.Error("gives its lock back, or keeps what is none of it")
	}
}

func TestNewGiven(t *testing.T) {
	const until = start + 800*ms
	given := func(maxHold time.Duration, ordered core.Set) core.Attempt {
		return core.NewGiven(core.Params{Nodes: 3, TTL: testTTL, Start: start, MaxHold: maxHold, Ordered: ordered}, 8, until)
	}
	t.Run("holds", func(t *testing.T) {
		a := given(0, 0)
		due, ok := a.ExtendDue()
		if mark, _ := a.Mark(); a.Phase() != core.Holding || !a.WasHeld() || a.Token() != 8 || mark != 8 ||
			a.Until() != until || !ok || due != start+25*ms {
			t.Errorf("phase %d, token %d, mark %d, until %v, extended at %v, %v", a.Phase(), a.Token(), mark, a.Until(), due, ok)
		}
		a.Tick(until - 1)
		if a.Phase() != core.Holding {
			t.Error("over a nanosecond before its end")
		}
		a.Tick(until)
		wantOver(t, &a, core.Expired)
	})
	t.Run("is extended as any other", func(t *testing.T) {
		a := given(0, 0)
		later := start + 100*ms
		round := a.StartExtend(later).Round
		a.OnExtend(0, round, 0, granted(8), later) // which gave it
		wantAction(t, a.OnExtend(1, round, 0, granted(9), later), core.Action{})
		if _, s := a.Extension(); s != core.Pending || a.Until() != until {
			t.Error("a lease counts that began later")
		}
		a.OnExtend(2, round, 0, granted(7), later) // which had not given it, and has promised nothing since
		if _, s := a.Extension(); s != core.Carried || a.Until() != core.Validity(later, testTTL) {
			t.Errorf("%v until %v", s, a.Until())
		}
	})
	t.Run("is taken", func(t *testing.T) {
		a := given(0, 0)
		round := a.StartExtend(start).Round
		a.OnExtend(0, round, 0, lost, start)
		wantAction(t, a.OnExtend(1, round, 0, lost, start), release(0, 1, 2))
		wantOver(t, &a, core.Taken)
	})
	t.Run("the maximum hold counts from its start", func(t *testing.T) {
		for maxHold, c := range map[time.Duration]struct {
			until time.Duration
			due   bool
		}{500 * ms: {start + 500*ms, false}, 800 * ms: {until, false}, 900 * ms: {until, true}} {
			a := given(maxHold, 0)
			if _, due := a.ExtendDue(); a.Until() != c.until || due != c.due {
				t.Errorf("%v: until %v, extended %v", maxHold, a.Until()-start, due)
			}
		}
		a := given(500*ms, 0)
		a.Tick(start + 500*ms)
		wantOver(t, &a, core.HeldTooLong)
		extended := given(900*ms, 0)
		round := extended.StartExtend(start).Round
		extended.OnExtend(0, round, 0, granted(8), start)
		extended.OnExtend(1, round, 0, granted(8), start)
		if extended.Until() != start+900*ms {
			t.Errorf("extended until %v", extended.Until()-start)
		}
	})
	t.Run("no longer than its TTL", func(t *testing.T) {
		a := core.NewGiven(core.Params{Nodes: 3, TTL: 100 * ms, Start: start}, 8, until)
		if want := core.Validity(start, 100*ms); a.Until() != want {
			t.Errorf("until %v, want %v", a.Until(), want)
		}
	})
	t.Run("its first extension can be lost as any other", func(t *testing.T) {
		for _, answers := range []bool{true, false} { // with errors
			a := core.NewGiven(core.Params{Nodes: 3, TTL: 30 * time.Second, Start: start}, 8, until)
			rounds := 0
			for due, ok := a.ExtendDue(); ok && due < until; due, ok = a.ExtendDue() {
				rounds++
				action := a.StartExtend(due)
				for i := 0; answers && i < 3; i++ {
					a.OnExtend(i, action.Round, 0, unknown, due+5*ms)
				}
			}
			if rounds < 3 || rounds > 20 {
				t.Errorf("answers %v: %d extensions within what was given", answers, rounds)
			}
		}
		a := given(0, 0)
		round := a.StartExtend(start).Round
		for i := range 2 {
			a.OnExtend(i, round, 0, granted(8), start)
		}
		a.StartExtend(start + time.Second)
		if due, _ := a.ExtendDue(); due != start+time.Second+testTTL/4 {
			t.Errorf("once it was extended, it goes on at %v", due-start)
		}
	})
	t.Run("what has ended holds nothing", func(t *testing.T) {
		a := core.NewGiven(core.Params{Nodes: 3, TTL: testTTL, Start: start}, 8, start-1)
		a.Tick(start)
		wantOver(t, &a, core.Expired)
	})
	t.Run("its release goes to all nodes", func(t *testing.T) {
		for _, ordered := range []core.Set{0, set(0, 2), set(0, 1, 2)} {
			a := given(0, ordered)
			wantAction(t, a.StartRelease(start), release(0, 1, 2))
			wantAction(t, a.StartRelease(start), core.Action{})
			wantOver(t, &a, core.LetGo)
			a.OnRelease(0, granted(0))
			if done, _ := a.ReleaseOutcome(); done {
				t.Error("done by one answer")
			}
			a.OnRelease(1, lost)
			if done, clean := a.ReleaseOutcome(); !done || !clean {
				t.Errorf("done %v, clean %v", done, clean)
			}
		}
		a := given(0, 0)
		a.Tick(until)
		wantAction(t, a.StartRelease(until), release(0, 1, 2))
		wantOver(t, &a, core.Expired)
	})
}
