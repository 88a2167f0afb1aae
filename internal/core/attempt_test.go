package core_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node/rule"
)

// All times of these tests: leases of 10 s, asked for at 100 s, so valid until
// 100 s + 10 s - 102 ms.
const (
	testTTL  = 10 * time.Second
	start    = 100 * time.Second
	validEnd = start + testTTL - 102*time.Millisecond
)

func newAttempt(nodes int) core.Attempt {
	a, _ := core.NewAttempt(core.Params{Nodes: nodes, TTL: testTTL, Start: start, Proposal: 7})
	return a
}

func granted(number fence.Token) core.Reply {
	return core.Reply{Status: core.Granted, Register: number}
}

func outrun(register fence.Token) core.Reply {
	return core.Reply{Status: core.Outrun, Register: register}
}

var (
	held      = core.Reply{Status: core.Held}
	lost      = core.Reply{Status: core.Lost}
	unknown   = core.Reply{}
	rejoining = core.Reply{Status: core.Rejoining}
)

func set(nodes ...int) (s core.Set) {
	for _, n := range nodes {
		s = s.With(n)
	}
	return s
}

func release(nodes ...int) core.Action { return core.Action{Op: core.Release, To: set(nodes...)} }

// acquire delivers the answers of nodes 0, 1, ... and returns the last action.
func acquire(a *core.Attempt, replies ...core.Reply) (last core.Action) {
	for node, r := range replies {
		last = a.OnAcquire(node, r, start)
	}
	return last
}

func holding(t *testing.T, nodes int) core.Attempt {
	t.Helper()
	a := newAttempt(nodes)
	for n := range core.Quorum(nodes) {
		a.OnAcquire(n, granted(7), start)
	}
	if a.Phase() != core.Holding || a.Token() != 7 {
		t.Fatalf("phase %d with token %d after a quorum of grants", a.Phase(), a.Token())
	}
	return a
}

func wantOver(t *testing.T, a *core.Attempt, why core.Reason) {
	t.Helper()
	if a.Phase() != core.Over || a.Reason() != why {
		t.Errorf("phase %d, reason %d; want over for reason %d", a.Phase(), a.Reason(), why)
	}
}

func wantAction(t *testing.T, got, want core.Action) {
	t.Helper()
	if got != want {
		t.Errorf("action %+v, want %+v", got, want)
	}
}

func TestValidityAndDrift(t *testing.T) {
	for _, c := range []struct{ ttl, drift time.Duration }{
		{testTTL, 102 * time.Millisecond},
		{time.Second, 12 * time.Millisecond},
		{0, 2 * time.Millisecond},
		{199, 2*time.Millisecond + 1}, // a hundredth, rounded down
	} {
		if got := rule.Drift(c.ttl); got != c.drift {
			t.Errorf("Drift(%v) = %v, want %v", c.ttl, got, c.drift)
		}
		if got := core.Validity(start, c.ttl); got != start+c.ttl-c.drift {
			t.Errorf("Validity(%v, %v) = %v", start, c.ttl, got)
		}
	}
}

func TestProposal(t *testing.T) {
	for _, c := range []struct {
		wall int64
		seen fence.Token
		want fence.Token
	}{
		{100, 5, 100}, {100, 99, 100}, {100, 100, 101}, {-3, 0, 1}, {0, 0, 1},
		{1 << 60, 5, rule.MaxProposal}, {5, rule.MaxProposal + 9, rule.MaxProposal},
	} {
		if got := core.Proposal(c.wall, c.seen); got != c.want {
			t.Errorf("Proposal(%d, %d) = %d, want %d", c.wall, c.seen, got, c.want)
		}
	}
}

// The validity counts from before the first request, and its very end is too late.
func TestTooLateToTheNanosecond(t *testing.T) {
	decided := func(at time.Duration, replies ...core.Reply) (core.Attempt, core.Action) {
		a := newAttempt(3)
		a.OnAcquire(0, replies[0], start)
		if len(replies) == 2 {
			return a, a.OnAcquire(1, replies[1], at)
		}
		a.OnAcquire(1, replies[1], start) // the same by way of a confirm
		a.OnConfirm(0, 8, replies[2], start)
		return a, a.OnConfirm(1, 8, replies[2], at)
	}
	for _, replies := range [][]core.Reply{{granted(7), granted(7)}, {granted(7), granted(8), granted(8)}} {
		a, _ := decided(validEnd-1, replies...)
		if a.Phase() != core.Holding || a.Until() != validEnd {
			t.Errorf("a nanosecond before the end: phase %d, valid until %v; want %v", a.Phase(), a.Until(), validEnd)
		}
		a.Tick(validEnd - 1)
		if a.Phase() != core.Holding {
			t.Error("expired a nanosecond early")
		}
		a.Tick(validEnd)
		wantOver(t, &a, core.Expired)

		late, act := decided(validEnd, replies...)
		wantOver(t, &late, core.TooLate)
		wantAction(t, act, release(0, 1))
	}
}

// Without a majority of grants, lateness is not the reason.
func TestLateWithoutMajority(t *testing.T) {
	a := newAttempt(3)
	a.OnAcquire(0, held, start)
	a.OnAcquire(1, granted(7), validEnd)
	wantOver(t, &a, core.Contended)

	a = newAttempt(3)
	a.OnAcquire(0, unknown, validEnd)
	wantOver(t, &a, core.NoQuorum)
}

// Another client has it, or the nodes are down: unknown is never a refusal.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name    string
		replies []core.Reply
		want    core.Reason
		release core.Set
	}{
		{"two refuse", []core.Reply{held, held}, core.Contended, set()},
		{"one grants, two refuse", []core.Reply{granted(7), held, held}, core.Contended, set(0)},
		{"a refusal, one down, a refusal", []core.Reply{held, unknown, held}, core.Contended, set(1)},
		{"a refusal, one down, a grant", []core.Reply{held, unknown, granted(7)}, core.Contended, set(1, 2)},
		{"a refusal, two down", []core.Reply{held, unknown, unknown}, core.NoQuorum, set(1, 2)},
		{"two are down", []core.Reply{unknown, unknown}, core.NoQuorum, set(0, 1)},
		{"a grant, a refusal, one down", []core.Reply{granted(7), held, unknown}, core.Contended, set(0, 2)},
		{"a grant, two down", []core.Reply{granted(7), unknown, unknown}, core.NoQuorum, set(0, 1, 2)},
		{"two rejoin", []core.Reply{rejoining, rejoining}, core.NoQuorum, set()},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttempt(3)
			before := c.replies[:len(c.replies)-1]
			acquire(&a, before...)
			if a.Phase() != core.Acquiring {
				t.Errorf("decided for reason %d before the answers told why", a.Reason())
			}
			act := a.OnAcquire(len(before), c.replies[len(before)], start)
			wantOver(t, &a, c.want)
			// A node that refused has no lease of ours and gets none. One that has
			// not answered is released when it does, see TestLateLeasesAreReleased.
			wantAction(t, act, core.Action{Op: core.Release, To: c.release})
			if a.WasHeld() {
				t.Error("counts as held")
			}
		})
	}
}

// Node 2 keeps requests in order, and has not answered the acquire. Its release need not wait for
// that, and what the acquire comes to is released already.
func TestOrderedNodesAreReleasedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		first    *core.Reply // the release's answer, if it is before the acquire's
		acquired core.Reply
		want     core.Action
	}{
		"granted":                     {nil, granted(7), core.Action{}},
		"held":                        {nil, held, core.Action{}},
		"unknown":                     {nil, unknown, release(2)},
		"overtaken after all":         {&lost, granted(7), release(2)},
		"the release is unknown":      {&unknown, granted(7), release(2)},
		"the release was too early":   {&lost, unknown, release(2)},
		"overtaken, and then refused": {&lost, held, core.Action{}},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: ttl, Start: start, Ordered: set(2)})
			acquire(&a, granted(7), granted(7))
			wantAction(t, a.StartRelease(start), release(0, 1, 2))
			if c.first != nil {
				a.OnRelease(2, *c.first)
			}
			wantAction(t, a.OnAcquire(2, c.acquired, start), c.want)
		})
	}
	// A failure asks only the nodes that have answered.
	a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: ttl, Start: start, Ordered: set(2)})
	acquire(&a, held, held)
	wantAction(t, a.OnAcquire(2, granted(7), start), release(2))
}

// What turns up after the attempt was given up is released there and then: the
// release sent earlier may have overtaken the acquire.
func TestLateLeasesAreReleased(t *testing.T) {
	for _, c := range []struct {
		r    core.Reply
		want core.Action
	}{
		{granted(7), release(2)},
		{unknown, release(2)},
		{held, core.Action{}},
		{rejoining, core.Action{}},
	} {
		failed := newAttempt(3)
		acquire(&failed, held, held)
		wantAction(t, failed.OnAcquire(2, c.r, start), c.want)

		cancelled := newAttempt(3)
		wantAction(t, cancelled.Cancel(), release(0, 1, 2))
		wantAction(t, cancelled.OnAcquire(2, c.r, start), c.want)
		wantAction(t, cancelled.Cancel(), core.Action{})

		// Node 2 has not answered: a release could overtake the acquire there.
		released := holding(t, 3)
		wantAction(t, released.StartRelease(start), release(0, 1))
		wantAction(t, released.StartRelease(start), core.Action{})
		wantAction(t, released.OnAcquire(2, c.r, start), c.want)

		early := holding(t, 3)
		early.OnAcquire(2, c.r, start)
		wantAction(t, early.StartRelease(start), release(0, 1, 2))

		// The extension may have put a lease where the acquire has not.
		extended := holding(t, 3)
		round := extended.StartExtend(start).Round
		for n := range 3 {
			extended.OnExtend(n, round, 0, granted(7), start)
		}
		wantAction(t, extended.StartRelease(start), release(0, 1, 2))
	}
	// A release must not overtake an extension: it would take the name from the waiter
	// who was notified. Nor the second one, which raises the mark.
	a := holding(t, 3)
	round := a.StartExtend(start).Round
	a.OnExtend(0, round, 0, granted(7), start)
	raising := a
	wantAction(t, a.StartRelease(start), release(0))
	a.OnRelease(0, granted(0))
	if done, _ := a.ReleaseOutcome(); done {
		t.Error("released by the word of one")
	}
	a.OnExtend(1, round, 0, lost, start)
	if _, clean := a.ReleaseOutcome(); !clean {
		t.Error("a node that does not have the lease is not free of it")
	}
	raising.OnExtend(1, round, 0, granted(7), start)
	raising.OnExtend(2, round, 0, granted(9), start)
	raising.OnExtend(0, round, 9, granted(7), start)
	wantAction(t, raising.StartRelease(start), release(0, 2))
	wantAction(t, raising.OnExtend(1, round, 9, granted(7), start), release(1))

	// An extension can create a lease too.
	a = holding(t, 3)
	round = a.StartExtend(start).Round
	a.StartRelease(start)
	wantOver(t, &a, core.LetGo)
	wantAction(t, a.OnExtend(2, round, 0, granted(7), start), release(2))
	wantAction(t, a.OnExtend(1, round, 0, unknown, start), release(1))
	wantAction(t, a.OnExtend(0, round, 0, lost, start), core.Action{})

	// While the tenure has merely expired, release is still to come, and once
	// is enough.
	b := holding(t, 3)
	b.Tick(validEnd)
	wantAction(t, b.StartRelease(validEnd), release(0, 1))
	b = holding(t, 3)
	b.Tick(validEnd)
	wantAction(t, b.OnAcquire(2, granted(7), validEnd), core.Action{})
	wantAction(t, b.StartRelease(validEnd), release(0, 1, 2))
	wantOver(t, &b, core.Expired)
}

func TestReleaseOutcome(t *testing.T) {
	outcome := func(a core.Attempt, wantDone, wantClean bool) {
		t.Helper()
		if done, clean := a.ReleaseOutcome(); done != wantDone || clean != wantClean {
			t.Errorf("done %v, clean %v; want %v, %v", done, clean, wantDone, wantClean)
		}
	}
	released := func(replies ...core.Reply) core.Attempt {
		a := holding(t, 3)
		a.StartRelease(start)
		for node, r := range replies {
			a.OnRelease(node, r)
		}
		return a
	}
	a := released(unknown, granted(0))
	outcome(a, false, false)
	outcome(released(unknown, granted(0), lost), true, true)     // a majority is free
	outcome(released(unknown, granted(0), unknown), true, false) // all answered, no majority

	// A node that refused the acquire in the end has no lease to release.
	a.OnAcquire(2, held, start)
	outcome(a, true, true)
	// One that never answers is released when that is clear.
	b := released(unknown, unknown)
	outcome(b, false, false)
	wantAction(t, b.OnAcquire(2, unknown, start), release(2))
	b.OnRelease(2, unknown)
	outcome(b, true, false)
}

func TestConfirm(t *testing.T) {
	differ := func(t *testing.T) core.Attempt {
		a := newAttempt(3)
		act := acquire(&a, granted(7), granted(9))
		wantAction(t, act, core.Action{Op: core.Confirm, To: set(0, 1, 2), Token: 9})
		if a.Phase() != core.Confirming {
			t.Fatalf("phase %d", a.Phase())
		}
		return a
	}
	t.Run("again with the higher number, and the old answers count for nothing", func(t *testing.T) {
		a := differ(t)
		a.OnConfirm(0, 9, outrun(12), start)
		act := a.OnConfirm(1, 9, outrun(11), start)
		wantAction(t, act, core.Action{Op: core.Confirm, To: set(0, 1, 2), Token: 12})
		a.OnConfirm(2, 9, granted(9), start)
		a.OnConfirm(0, 12, granted(12), start)
		if a.Phase() != core.Confirming {
			t.Fatal("an answer to 9 counted for 12")
		}
		a.OnConfirm(1, 9, lost, start)
		a.OnConfirm(1, 12, granted(12), start)
		if a.Phase() != core.Holding || a.Token() != 12 {
			t.Errorf("phase %d, token %d", a.Phase(), a.Token())
		}
	})
	t.Run("a late grant raises the number too", func(t *testing.T) {
		a := differ(t)
		a.OnAcquire(2, granted(20), start)
		a.OnConfirm(0, 9, lost, start)
		act := a.OnConfirm(1, 9, unknown, start)
		wantAction(t, act, core.Action{Op: core.Confirm, To: set(0, 1, 2), Token: 20})
	})
	t.Run("no higher number to try", func(t *testing.T) {
		a := differ(t)
		a.OnConfirm(0, 9, lost, start)
		act := a.OnConfirm(1, 9, lost, start)
		wantOver(t, &a, core.Contended)
		wantAction(t, act, release(0, 1))
	})
	t.Run("unknown is no refusal", func(t *testing.T) {
		a := differ(t)
		a.OnConfirm(0, 9, unknown, start)
		a.OnConfirm(1, 9, unknown, start)
		wantOver(t, &a, core.NoQuorum)
	})
	t.Run("nothing is asked of a node that refused", func(t *testing.T) {
		a := newAttempt(3)
		act := acquire(&a, held, granted(7), granted(9))
		wantAction(t, act, core.Action{Op: core.Confirm, To: set(1, 2), Token: 9})
		a.OnConfirm(1, 9, lost, start)
		wantOver(t, &a, core.Contended) // its refusal counts in this round too
	})
	t.Run("nor of one that rejoins, whose answer is not waited for", func(t *testing.T) {
		a := newAttempt(3)
		act := acquire(&a, rejoining, granted(7), granted(9))
		wantAction(t, act, core.Action{Op: core.Confirm, To: set(1, 2), Token: 9})
		a.OnConfirm(1, 9, lost, start)
		a.OnConfirm(2, 9, unknown, start)
		wantOver(t, &a, core.NoQuorum)
	})
}

// TestAcquireAgainstReference compares the decisions with a version that looks
// at all answers so far from scratch.
func TestAcquireAgainstReference(t *testing.T) {
	for seed := range uint64(20_000) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := 1 + random.IntN(core.MaxNodes)
		a, _ := core.NewAttempt(core.Params{Nodes: n, TTL: testTTL, Start: start})
		var numbers []fence.Token
		no := 0
		for i, node := range random.Perm(n) {
			reply := core.Reply{Status: core.Granted, Register: fence.Token(1 + random.IntN(2))}
			if random.IntN(4) == 0 {
				reply = []core.Reply{held, unknown, rejoining}[random.IntN(3)]
			}
			act := a.OnAcquire(node, reply, start)
			if reply.Status == core.Granted {
				numbers = append(numbers, reply.Register)
			} else if reply.Status == core.Held {
				no++
			}
			phase, token, why := reference(n, i+1, numbers, no)
			number := a.Token()
			if a.Phase() != phase || a.Reason() != why || phase != core.Acquiring && phase != core.Over && number != token {
				t.Fatalf("seed %d: after %d of %d answers, %v granted, %d refused: phase %d, token %d, reason %d; want %d, %d, %d",
					seed, i+1, n, numbers, no, a.Phase(), number, a.Reason(), phase, token, why)
			}
			if phase != core.Acquiring {
				if (act.Op == core.Confirm) != (phase == core.Confirming) || (act.Op == core.Release) != (phase == core.Over) {
					t.Fatalf("seed %d: action %+v in phase %d", seed, act, phase)
				}
				break
			}
		}
	}
}

func reference(n, answers int, numbers []fence.Token, no int) (core.Phase, fence.Token, core.Reason) {
	times := map[fence.Token]int{}
	largest := fence.Token(0)
	for _, number := range numbers {
		times[number]++
		if 2*times[number] > n {
			return core.Holding, number, core.NotOver
		}
		largest = max(largest, number)
	}
	outstanding := n - answers
	switch {
	case 2*len(numbers) > n:
		return core.Confirming, largest, core.NotOver
	case 2*(len(numbers)+outstanding) > n:
		return core.Acquiring, 0, core.NotOver
	case 2*(len(numbers)+no) > n:
		return core.Over, 0, core.Contended
	case 2*(len(numbers)+no+outstanding) > n:
		return core.Acquiring, 0, core.NotOver // hopeless, but why is not known yet
	}
	return core.Over, 0, core.NoQuorum
}

// What was certainly never sent has left no lease: nothing has to be released there. And
// an answer that comes after its time was up tells whether one may be.
func TestUnsentAndLate(t *testing.T) {
	unsent := core.Reply{Unsent: true}
	failed := newAttempt(3)
	wantAction(t, failed.OnAcquire(0, granted(7), start), core.Action{})
	wantAction(t, failed.OnAcquire(1, unsent, start), core.Action{})
	wantAction(t, failed.OnAcquire(2, unknown, start), release(0, 2))
	wantOver(t, &failed, core.NoQuorum)
	wantAction(t, failed.OnLateAcquire(1, unsent, 0), core.Action{})
	wantAction(t, failed.OnLateAcquire(2, unknown, 0), core.Action{})
	wantAction(t, failed.OnLateAcquire(2, held, 0), core.Action{})
	wantAction(t, failed.OnLateAcquire(2, granted(9), 0), release(2))

	lock := newAttempt(3)
	lock.OnAcquire(2, unsent, start)
	acquire(&lock, granted(7), granted(7))
	extended := lock
	wantAction(t, lock.StartRelease(start), release(0, 1))
	lock.OnRelease(0, granted(0))
	if _, clean := lock.ReleaseOutcome(); !clean {
		t.Error("a node without a lease is not free of it")
	}
	round := extended.StartExtend(start).Round // which may have made one
	extended.OnExtend(2, round, 0, unknown, start)
	wantAction(t, extended.StartRelease(start), release(2))

	late := newAttempt(3)
	late.OnAcquire(2, unknown, start)
	acquire(&late, granted(7), granted(7))
	wantAction(t, late.OnLateAcquire(2, granted(7), 0), core.Action{})
	if late.Phase() != core.Holding {
		t.Error("a late answer ended a lock")
	}
	late.OnLateAcquire(2, unsent, 0) // of an engine that was wrong before
	wantAction(t, late.StartRelease(start), release(0, 1))
}
