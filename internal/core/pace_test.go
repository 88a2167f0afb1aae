package core_test

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

const paceTimeout = 500 * time.Millisecond

// one makes an attempt that takes so long, and returns the time after it.
func one(p *core.Pace, now, took time.Duration) time.Duration {
	p.Begin(now)
	p.Ended(now+took, now, took, false, 0.5)
	return now + took
}

// A window that is not used does not grow. Where nodes are far, a client that was behind once would
// not pace itself for long when they are behind again.
func TestPaceHasNoWindowInStock(t *testing.T) {
	for _, took := range []time.Duration{paceTimeout / 8, paceTimeout * 6 / 10, paceTimeout * 9 / 10} {
		p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
		now := one(&p, 0, 2*paceTimeout)
		for i := range 10_000 { // some at a time, and there is always another one
			p.Begin(now)
			p.Begin(now)
			p.Ended(now+took, now, took, i < 9_900, 0.5)
			p.Ended(now+took, now, took, i < 9_900, 0.5)
			now += took
		}
		if p.Behind() {
			t.Errorf("answers take %v, and the nodes are behind", took)
		}
		for i := range 3 {
			asked := now + time.Duration(i)*time.Second
			for range 100 {
				p.Begin(asked)
			}
			for range 100 {
				p.Ended(asked+4*paceTimeout, asked, 4*paceTimeout, true, 0.5)
			}
		}
		now += 10 * time.Second
		may := 0
		for ; may < 1000; may++ {
			if wait, ok := p.Due(now); !ok || wait > 0 {
				break
			}
			p.Begin(now)
		}
		if may > 100 {
			t.Errorf("answers took %v, then the nodes are behind: %d attempts may be under way, and 100 were", took, may)
		}
	}
}

// While answers come within the node timeout, any number of attempts may be under way.
func TestPaceLeavesTheCalmAlone(t *testing.T) {
	p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
	for _, now := range []time.Duration{-time.Hour, 0, time.Hour} {
		for range 1000 {
			if wait, ok := p.Due(now); !ok || wait > 0 {
				t.Fatal(wait, ok)
			}
			p.Begin(now)
		}
		for range 1000 {
			p.Ended(now+paceTimeout, now, paceTimeout, false, 0)
		}
	}
	if p.Timeout(p.TTL) != paceTimeout {
		t.Error(p.Timeout(p.TTL))
	}
}

// A client whose attempts take longer pauses after each, ever longer, but no longer than three
// quarters of the TTL. When they are fast again, it does not.
func TestPacePauses(t *testing.T) {
	for _, epoch := range []time.Duration{-time.Hour, 0, time.Hour} {
		p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
		now := one(&p, epoch, 2*time.Second)
		now = one(&p, now, 2*time.Second)
		before := time.Duration(0)
		for i := range 5 {
			wait, ok := p.Due(now)
			if !ok || wait < before || wait == 0 || wait > 6*time.Second || i == 4 && wait < 5*time.Second {
				t.Fatalf("epoch %v, %d: waits for %v after %v, %v", epoch, i, wait, before, ok)
			}
			before = wait
			now = one(&p, now+wait, 2*time.Second)
		}
		for range 20 {
			wait, _ := p.Due(now)
			now = one(&p, now+max(wait, 0), time.Millisecond)
		}
		p.Begin(now)
		if wait, ok := p.Due(now); !ok || wait > 0 {
			t.Error("it still waits", wait, ok)
		}
	}
}

// A client with many attempts under way has fewer of them, about as many as take the node timeout.
// What began before the number was changed does not change it again.
func TestPaceHasAWindow(t *testing.T) {
	p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
	const many = 64
	for range many {
		p.Begin(0)
	}
	start := time.Minute // they are usual
	for range many {
		p.Ended(start, start-time.Millisecond, time.Millisecond, false, 0.5)
		p.Begin(start)
	}
	now := start + 4*paceTimeout
	for range many {
		p.Ended(now, start, 4*paceTimeout, true, 0.5)
	}
	may := 0
	for {
		if wait, ok := p.Due(now); !ok || wait > 0 {
			break
		}
		p.Begin(now)
		may++
	}
	// What was usual, which is nearly all of them.
	if may < many/2 || may > many {
		t.Errorf("%d may be under way, of %d", may, many)
	}
	// Those that are fast let more be under way; while others wait, there is a window.
	for range may {
		p.Ended(now+paceTimeout/4, now, paceTimeout/4, true, 0.5)
	}
	more := 0
	for now += paceTimeout / 4; more < 2*many; more++ {
		if _, ok := p.Due(now); !ok {
			break
		}
		p.Begin(now)
	}
	if more <= may || more > 2*may {
		t.Errorf("%d may be under way, after %d", more, may)
	}
}

// While answers take longer, those to a confirm are waited for as long, but not longer than a sixth
// of the lock's TTL. One prompt answer ends that, and silence does not begin it.
func TestPaceFollowsWhatIsMeasured(t *testing.T) {
	p := core.Pace{NodeTimeout: paceTimeout, TTL: 60 * time.Second}
	const ttl = 12 * time.Second
	want := func(timeout, patience time.Duration) {
		t.Helper()
		if p.Timeout(ttl) != timeout || p.Patience(ttl) != patience {
			t.Errorf("%v and %v, want %v and %v", p.Timeout(ttl), p.Patience(ttl), timeout, patience)
		}
	}
	now := one(&p, 0, paceTimeout)
	want(paceTimeout, paceTimeout*7/2)
	p.Begin(now)
	p.Unanswered(now+10*time.Second, now)
	want(paceTimeout, paceTimeout*3/2) // they are down, for all that is known
	now = one(&p, now+10*time.Second, paceTimeout)
	want(paceTimeout, paceTimeout*7/2)
	now = one(&p, now, 600*time.Millisecond)
	want(1200*time.Millisecond, core.Patience(ttl))
	now = one(&p, now, 5*time.Second)
	want(2*time.Second, core.Patience(ttl))
	now = one(&p, now, time.Millisecond)
	want(paceTimeout, core.Patience(ttl))
	p.Heard(now, time.Millisecond, false)
	want(paceTimeout, paceTimeout*7/2)
	one(&p, now, time.Second)
	if got := p.Patience(time.Hour); got != 6*time.Second {
		t.Errorf("what is lost is waited for for %v", got)
	}
	far := core.Pace{NodeTimeout: 3 * time.Second, TTL: ttl}
	one(&far, 0, 5*time.Second)
	if far.Timeout(ttl) != 3*time.Second || far.Patience(ttl) != core.Patience(ttl) {
		t.Error(far.Timeout(ttl), far.Patience(ttl))
	}
}

// A client that was calm makes one more attempt at once, and then pauses for about what that took.
// Prompt answers to anything end the pause and, if no other waits, the pacing.
func TestPaceHearsOfRecovery(t *testing.T) {
	for _, epoch := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, took := range []time.Duration{600 * time.Millisecond, 2 * time.Second} {
			p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
			now := one(&p, epoch, took)
			if wait, ok := p.Due(now); !ok || wait != 0 || !p.Behind() {
				t.Error(took, wait, ok)
			}
			now = one(&p, now, took)
			if wait, ok := p.Due(now); !ok || wait < took*3/4 || wait > took*5/2 {
				t.Error(took, wait, ok)
			}
			p.Heard(now, time.Millisecond, true)
			if wait, ok := p.Due(now); !ok || wait > 3*time.Millisecond || !p.Behind() {
				t.Error(took, wait, ok)
			}
			if p.Heard(now, time.Millisecond, false); p.Behind() {
				t.Error("it is behind")
			}
		}
	}
}

// Nodes that are silent are not behind, for all that is known. Answers that come later tell.
func TestPaceOfSilence(t *testing.T) {
	for _, epoch := range []time.Duration{-time.Hour, 0, time.Hour} {
		p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
		now := epoch
		for range 10 {
			p.Begin(now)
			p.Unanswered(now+3*paceTimeout, now)
			now += 3 * paceTimeout
			if wait, ok := p.Due(now); !ok || wait > 0 {
				t.Fatal(wait, ok)
			}
		}
		if p.Late(now, now-4*paceTimeout, 4*paceTimeout, false, 0.5); !p.Behind() {
			t.Fatal("late answers tell nothing")
		}
		for range 10 { // and then none
			wait, _ := p.Due(now)
			now += max(wait, 0)
			p.Begin(now)
			p.Unanswered(now+6*paceTimeout, now)
			now += 6 * paceTimeout
		}
		if p.Behind() {
			t.Error("nodes that have not answered for so long are behind")
		}
	}
}

// While all attempts are silent, one at a time is repeated for all, until one is answered. An
// attempt that was not answered says nothing if another one was meanwhile.
func TestPaceRepeatsOneInSilence(t *testing.T) {
	for _, epoch := range []time.Duration{-time.Hour, 0, time.Hour} {
		p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
		now := one(&p, epoch, time.Millisecond)
		may := func(want bool) {
			t.Helper()
			if wait, ok := p.Due(now); ok != want || wait > 0 {
				t.Errorf("epoch %v: %v, %v", epoch, wait, ok)
			}
		}
		p.Begin(now + 1)
		p.Begin(now + 1)
		p.Ended(now+3, now+2, 1, false, 0.5)
		p.Begin(now)
		p.Unanswered(now+4*paceTimeout, now+1)
		may(true)
		asked := now + 5*paceTimeout
		p.Begin(asked)
		now = asked + 4*paceTimeout
		p.Unanswered(now, asked)
		may(false) // one more is under way
		p.Unanswered(now, asked)
		may(true)
		p.Begin(now)
		may(false)
		p.Ended(now+1, now, 1, true, 0.5)
		for range 10 {
			may(true)
			p.Begin(now)
		}
		if p.Behind() {
			t.Error("it is behind")
		}
	}
}

// An attempt that is not made is not under way.
func TestPaceSkips(t *testing.T) {
	p := core.Pace{NodeTimeout: paceTimeout, TTL: 10 * time.Second}
	now := one(&p, 0, 2*time.Second)
	now = one(&p, now, 2*time.Second)
	wait, _ := p.Due(now)
	now += wait
	p.Begin(now)
	if _, ok := p.Due(now); ok {
		t.Error("two may be under way")
	}
	p.Skip(now)
	if wait, ok := p.Due(now); !ok || wait > 0 {
		t.Error("it waits for one that was not made")
	}
}

// An attempt whose caller waits is not given up before the nodes that are silent have answered.
// Their grants count, with a validity from its start.
func TestLateGrantsAreTheLock(t *testing.T) {
	for _, waits := range []bool{true, false} {
		a, _ := core.NewAttempt(core.Params{Nodes: 5, TTL: testTTL, Start: start, Proposal: 7, Waits: waits})
		for n := range 5 {
			if n == 1 {
				a.OnAcquire(n, granted(7), start+1)
			} else {
				a.OnAcquire(n, silent, start+2)
			}
		}
		if !waits {
			if a.Phase() != core.Over || a.Reason() != core.NoQuorum {
				t.Error(a.Phase(), a.Reason())
			}
			continue
		}
		for n := range 2 {
			if a.Phase() != core.Acquiring {
				t.Fatal(a.Phase(), a.Reason())
			}
			wantAction(t, a.OnLateAcquire(3+n, granted(7), start+3), core.Action{})
		}
		if a.Phase() != core.Holding || a.Token() != 7 || a.Until() != core.Validity(start, testTTL) {
			t.Error(a.Phase(), a.Token(), a.Until())
		}
		// The next ones are leases of the lock.
		wantAction(t, a.OnLateAcquire(0, granted(9), start+4), core.Action{})
	}
}

// It fails as soon as no quorum can answer any more: the rest have, or will not.
func TestSilenceEnds(t *testing.T) {
	begin := func() core.Attempt {
		a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: testTTL, Start: start, Proposal: 7, Waits: true, Ordered: set(2)})
		for n := range 3 {
			a.OnAcquire(n, silent, start+1)
		}
		return a
	}
	a := begin()
	wantAction(t, a.OnLateAcquire(0, granted(7), start+2), core.Action{})
	wantAction(t, a.OnLateAcquire(1, held, start+2), release(0, 2))
	if a.Reason() != core.Contended {
		t.Error(a.Reason())
	}
	a = begin()
	wantAction(t, a.OnLateAcquire(0, unknown, start+2), core.Action{})
	wantAction(t, a.OnLateAcquire(1, unknown, start+2), release(0, 1, 2))
	if a.Reason() != core.NoQuorum {
		t.Error(a.Reason())
	}
	// What keeps requests in order has the release behind the acquire, the other may not.
	wantAction(t, a.OnLateAcquire(2, granted(8), start+3), core.Action{})
	wantAction(t, a.OnLateAcquire(1, granted(8), start+3), release(1))
	a = begin()
	if a.OnLateAcquire(0, granted(7), core.Validity(start, testTTL)); a.Phase() != core.Over {
		t.Error("it goes on beyond the validity")
	}
}

// News ends an attempt that waits for late answers only, and no other. What may be there is
// released.
func TestHurry(t *testing.T) {
	begin := func(replies ...core.Reply) core.Attempt {
		a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: testTTL, Start: start, Proposal: 7, Waits: true})
		acquire(&a, replies...)
		return a
	}
	for _, c := range []struct {
		name   string
		said   []core.Reply
		want   core.Action
		reason core.Reason
	}{
		{"none has answered, and none is late", nil, core.Action{}, core.NotOver},
		{"one is silent", []core.Reply{silent}, core.Action{}, core.NotOver},
		{"one is silent, and one is in time", []core.Reply{silent, granted(7)}, core.Action{}, core.NotOver},
		{"too many are silent", []core.Reply{silent, silent}, release(0, 1), core.NoQuorum},
		{"all are silent", []core.Reply{silent, silent, silent}, release(0, 1, 2), core.NoQuorum},
		{"one has granted", []core.Reply{granted(7), silent, silent}, release(0, 1, 2), core.NoQuorum},
		{"one has refused, and one may tell in time who has it", []core.Reply{held, silent}, core.Action{}, core.NotOver},
		{"one has refused", []core.Reply{held, silent, silent}, release(1, 2), core.NoQuorum},
	} {
		a := begin(c.said...)
		if got := a.Hurry(); got != c.want || a.Reason() != c.reason {
			t.Errorf("%s: %+v, reason %v; want %+v, %v", c.name, got, a.Reason(), c.want, c.reason)
		}
	}
	// It counts no late grant any more, and releases it.
	a := begin(silent, silent, granted(7))
	a.Hurry()
	wantAction(t, a.OnLateAcquire(0, granted(7), start+3), release(0))
	if wantAction(t, a.Hurry(), core.Action{}); a.WasHeld() || a.Reason() != core.NoQuorum {
		t.Error(a.Phase(), a.Reason())
	}
	// What is told in time afterwards ends it, without a wait for late answers.
	a = begin(held, silent)
	a.Hurry()
	if a.OnAcquire(2, silent, start+1); a.Reason() != core.NoQuorum {
		t.Error(a.Phase(), a.Reason())
	}
	// A lock that is held, or being confirmed, is no attempt that waits.
	a = begin(silent, granted(7), granted(7))
	wantAction(t, a.Hurry(), core.Action{})
	b := begin(silent, granted(7), granted(9))
	if wantAction(t, b.Hurry(), core.Action{}); a.Phase() != core.Holding || b.Phase() != core.Confirming {
		t.Error(a.Phase(), b.Phase())
	}
}

// An answer that overtakes the word that its time is up is the node's answer. No other comes.
func TestAnswersThatOvertakeSilence(t *testing.T) {
	for _, reply := range []core.Reply{granted(7), held, unknown} {
		a, _ := core.NewAttempt(core.Params{Nodes: 3, TTL: testTTL, Start: start, Proposal: 7, Waits: true})
		a.OnAcquire(2, granted(7), start+1)
		a.OnLateAcquire(0, reply, start+2)
		wantAction(t, a.OnAcquire(0, silent, start+2), core.Action{})
		if granted := reply.Status == core.Granted; (a.Phase() == core.Holding) != granted {
			t.Errorf("%+v: phase %d", reply, a.Phase())
		}
		a.OnAcquire(1, silent, start+2)
		if a.OnLateAcquire(1, unknown, start+3); a.Phase() == core.Acquiring {
			t.Errorf("%+v: the attempt waits for ever", reply)
		}
	}
}
