package shell

import (
	"context"
	"errors"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// This file drives the core: it feeds it the answers and the time, and tells the
// owner what was decided.

// answered implements answerer.
func (l *Lock) answered(f *fanout, i int, a node.Answer, err error) {
	g := l.group
	reply := replyOf(a, err)
	now, read := f.sent, false // the clock is not read for what does not ask for it
	if err == nil {
		g.observe(a.Register)
		if a.Status == node.Held {
			now, read = g.Env.Now(), true
			g.observeClock(i, f.sent, now, a.Clock)
			l.of.refused(i, f.sent, now, a)
		}
	}
	l.mu.Lock()
	raises := f.action.Op == core.Extend && f.action.Token != 0
	overtaken := f.action.Op == core.Acquire && reply.Silent && !l.left.Has(i) // by an answer: see lateAcquire
	if !raises && !overtaken && !(f.action.Op == core.Release && l.isKept) {   // these tell nothing new
		l.peers[i].said = said{op: f.action.Op, round: f.action.Round, answer: a, err: err}
	}
	if !read && l.timely(f.action, reply) {
		now, read = g.Env.Now(), true
	}
	var action core.Action
	due, _ := l.attempt.ExtendDue()
	switch f.action.Op {
	case core.Acquire:
		action = l.attempt.OnAcquire(i, reply, now)
	case core.Confirm:
		action = l.attempt.OnConfirm(i, f.action.Token, reply, now)
	case core.Extend:
		action = l.attempt.OnExtend(i, f.action.Round, f.action.Token, reply, now)
	case core.Release:
		l.attempt.OnRelease(i, reply)
		if err != nil {
			r := f.request
			r.Place = node.Place{} // the waiter has gone on since
			g.strays.add(i, r, l.attempt.Settled(i), &f.calls.of(i).heard)
		}
	}
	if f.action.Op == core.Acquire && !reply.Silent {
		l.counted(i, err == nil, now)
	}
	decided := l.settle(now)
	outcome := l.outcome(now)
	// It is not released there, and may be in the queue still.
	left := f.action.Op == core.Extend && a.Status == node.Lost && l.isReleased && action.Op == core.None
	if sooner, ok := l.attempt.ExtendDue(); ok && f.action.Op == core.Extend && sooner < due {
		l.setTick(g.Env.Now())
	}
	l.mu.Unlock()
	if action.Op != core.None {
		if !read {
			now = g.Env.Now()
		}
		l.send(action, now)
	}
	if took := f.action.Op == core.Acquire && a.Status == node.Granted; left || !took && f.request.Place.Stamp != 0 {
		l.of.enqueued(i)
	}
	g.pacing.ended(outcome)
	if decided {
		l.of.decided(l)
	}
}

// counted counts a node's last word to the acquire, and whether that is an answer.
func (l *Lock) counted(i int, answer bool, now time.Duration) {
	l.left = l.left.Without(i)
	if !answer || l.heard.Has(i) {
		return
	}
	if l.heard = l.heard.With(i); l.heard.Len() == core.Quorum(len(l.peers)) {
		l.heardAt = now
	}
}

// took returns how long a quorum took to answer the acquire.
func (l *Lock) took() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heardAt - l.start
}

// outcome returns, once each, what the attempt has come to for those that wait for their turn. It
// is called after each step, with the mutex held.
func (l *Lock) outcome(now time.Duration) outcome {
	what := noOutcome
	switch heard := l.heard.Len() >= core.Quorum(len(l.peers)); {
	case heard && l.decided && l.past == noOutcome:
		what = answered
	case heard && l.past == unanswered:
		what = later
	case !heard && l.decided && l.left == 0 && l.past == noOutcome:
		what = unanswered
	default:
		return outcome{}
	}
	l.past = what
	return outcome{what: what, now: now, asked: l.start, heard: l.heardAt}
}

// silent implements answerer.
func (l *Lock) silent() bool {
	l.mu.Lock()
	waits, goesOn := l.past == noOutcome, l.waits && !l.decided
	var f Failure
	if goesOn {
		f = missing(l.peers, core.Acquire, core.NoQuorum)
	}
	l.mu.Unlock()
	if goesOn {
		l.of.unanswered(&f)
	}
	return waits
}

// replyOf is an answer as the core sees it.
func replyOf(a node.Answer, err error) core.Reply {
	if err != nil {
		_, silent := err.(noAnswer)
		return core.Reply{Unsent: errors.Is(err, node.ErrNotSent), Silent: silent}
	}
	return core.Reply{Status: core.Status(a.Status), Register: a.Register}
}

// late implements answerer: a lease that was made all the same is released, if it is of
// no use any more. An extension that was accepted counts.
func (l *Lock) late(f *fanout, i int, a node.Answer, err error) {
	switch f.action.Op {
	case core.Acquire:
		l.lateAcquire(f, i, a, err)
	case core.Release:
		if err != nil {
			l.group.strays.lost(i, &f.request)
			return
		}
		l.group.strays.answered(i, &f.request, a.Status == node.Granted)
		if f.request.Place.Stamp != 0 {
			l.of.enqueued(i)
		}
	case core.Extend:
		if err == nil && a.Register > node.MaxRegister || errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Canceled) {
			return // it tells nothing new
		}
		l.lateExtend(f, i, a, err)
	}
}

// lateAcquire takes an answer to an acquire whose time was up, or that there is none.
func (l *Lock) lateAcquire(f *fanout, i int, a node.Answer, err error) {
	g := l.group
	now := g.Env.Now()
	if err == nil {
		g.observe(a.Register)
		if a.Status == node.Held {
			g.observeClock(i, f.sent, now, a.Clock)
			l.of.refused(i, f.sent, now, a)
		}
	}
	reply := replyOf(a, err)
	l.mu.Lock()
	switch s := &l.peers[i].said; {
	case s.op > core.Acquire || l.decided:
	case !errors.Is(err, context.DeadlineExceeded):
		s.op, s.answer, s.err = core.Acquire, a, err
	case s.op == core.None: // it has overtaken the word that the time is up
		s.op, s.err = core.Acquire, gaveUp{f.silence(i)}
	}
	action := l.attempt.OnLateAcquire(i, reply, now)
	decided := l.settle(now)
	l.counted(i, err == nil, now)
	outcome := l.outcome(now)
	l.mu.Unlock()
	g.pacing.ended(outcome)
	l.send(action, now)
	if err == nil && a.Status != node.Granted && f.request.Place.Stamp != 0 {
		l.of.enqueued(i)
	}
	if decided {
		l.of.decided(l)
	}
}

// lateExtend takes an answer to an extend whose time was up.
func (l *Lock) lateExtend(f *fanout, i int, a node.Answer, err error) {
	if err == nil {
		l.group.observe(a.Register)
	}
	now := l.group.Env.Now()
	l.mu.Lock()
	if s := &l.peers[i].said; f.action.Token == 0 && s.op == core.Extend && s.round == f.action.Round {
		s.answer, s.err = a, err
	}
	due, _ := l.attempt.ExtendDue()
	action := l.attempt.OnExtend(i, f.action.Round, f.action.Token, replyOf(a, err), now)
	decided := l.settle(now)
	if sooner, ok := l.attempt.ExtendDue(); ok && sooner < due {
		l.setTick(now)
	}
	l.mu.Unlock()
	l.send(action, now)
	if decided { // an adoption, some of whose nodes have time left
		l.of.decided(l)
	}
}

// timely reports whether it matters when an answer comes: not of a release, and not
// once a majority has decided. To read the clock is a system call.
func (l *Lock) timely(action core.Action, reply core.Reply) bool {
	switch action.Op {
	case core.Acquire:
		return !l.decided || l.past == noOutcome || l.past == unanswered
	case core.Confirm:
		return !l.decided
	case core.Extend:
		// An answer to an extend that raises the mark counts only as long as the raise lasts.
		_, state := l.attempt.Extension()
		return state != core.Carried || action.Token != 0 || !l.attempt.Accepts(reply)
	}
	return false
}

// settle tells the waiting caller what the core has decided. It is called, with the mutex held,
// after each step of the core. It reports whether the attempt was decided by it: the owner has to
// be told then, without the mutex.
func (l *Lock) settle(now time.Duration) (decided bool) {
	phase := l.attempt.Phase()
	if phase == core.Acquiring || phase == core.Confirming || phase == core.Adopting {
		return false
	}
	if !l.decided {
		l.decided, decided = true, true
		l.isDecided.Store(true)
		if phase == core.Holding {
			l.of.held(l.attempt.Token(), l.given)
			l.setTick(now)
		} else {
			l.failure, l.refusals = l.failed(), refusals(l.peers)
			return decided
		}
	}
	if l.failure.Failed() {
		return decided
	}
	if phase == core.Over && !l.over {
		l.lost, l.over = l.end(), true
		l.ended.Store(true)
		l.group.ticks.remove(&l.ticking)
		left := time.Duration(0)
		if l.lost.Reason == core.LetGo || l.lost.Reason == core.Exported {
			left = max(l.attempt.Until()-now, 0)
		}
		l.of.ended(l.lost, left)
		if l.group.Bound && l.lost.Reason == core.HeldTooLong {
			l.group.Env.Go(l.letGo) // nothing may be sent with the mutex held
		}
	}
	switch {
	case l.inRound:
		l.settleExtension(now)
	case phase == core.Holding && l.attempt.Until() > l.told: // by an answer that came late
		l.told = l.attempt.Until()
		if !decided {
			l.of.extended(l.told-now, Failure{})
		}
	}
	if l.isReleased && !l.wasFreed {
		l.settleRelease()
	}
	return decided
}

// letGo releases a lock that has ended, and whose lease does not end by time.
func (l *Lock) letGo() {
	l.mu.Lock()
	now := l.group.Env.Now()
	action := l.attempt.StartRelease(now)
	l.mu.Unlock()
	l.send(action, now)
}

func (l *Lock) settleExtension(now time.Duration) {
	_, state := l.attempt.Extension()
	if state == core.Pending {
		return
	}
	// Over counts more than Carried: the validity may have run out since.
	f := l.end()
	if !f.Failed() && state == core.Missed {
		f = l.notExtended(core.NoQuorum)
	}
	l.inRound = false
	left := max(l.attempt.Until()-now, 0)
	if l.attempt.Phase() != core.Holding {
		left = 0
	}
	l.told = l.attempt.Until()
	l.of.extended(left, f)
	l.extending.end(f)
	if l.attempt.Phase() != core.Holding {
		l.next.end(f)
		return
	}
	l.setTick(now)
	if l.next.first != nil {
		l.group.Env.Go(l.extendNext) // nothing may be sent with the mutex held
	}
}

// extendNext begins the round of those who came during the one before, unless a
// tick has.
func (l *Lock) extendNext() {
	l.mu.Lock()
	now := l.group.Env.Now()
	var action core.Action
	if !l.inRound && l.next.first != nil {
		action = l.startExtend(now)
	}
	l.mu.Unlock()
	l.send(action, now)
}

func (l *Lock) settleRelease() {
	done, clean := l.attempt.ReleaseOutcome()
	if !done {
		return
	}
	l.wasFreed = true
	var f Failure
	switch {
	case l.isKept && l.attempt.Reason() == core.Taken:
		f = missing(l.peers, core.Extend, core.Taken)
	case clean:
	case l.isKept:
		f = missing(l.peers, core.Extend, core.NoQuorum)
	default:
		f = missing(l.peers, core.Release, core.NoQuorum)
	}
	l.of.freed(f)
}

// tick implements ticker: it extends when that is due, or nearly so, and ends what
// has run out.
func (l *Lock) tick(now time.Duration) {
	l.mu.Lock()
	var action core.Action
	l.attempt.Tick(now)
	if due, ok := l.attempt.ExtendDue(); ok && now+l.ticking.early >= due && !l.group.inflight.isClosed() {
		action = l.renew(now)
	}
	l.settle(now)
	if l.attempt.Phase() == core.Holding {
		l.setTick(now)
	}
	l.mu.Unlock()
	l.send(action, now)
}

// setTick sets the next tick: at the next extension or the end of the validity. Never
// later than in a quarter of the TTL, because Go's timers stand still while the
// machine is suspended, and the validity does not.
func (l *Lock) setTick(now time.Duration) {
	next := l.attempt.Until()
	if due, ok := l.attempt.ExtendDue(); ok && !l.group.inflight.isClosed() {
		next = min(next, due)
	}
	l.group.ticks.set(&l.ticking, now, min(max(next, now), now+l.terms.TTL/4))
}

// failed says why the lock was not acquired. Call it when that is decided: the answers to the
// releases that follow replace those that tell.
func (l *Lock) failed() Failure {
	switch why := l.attempt.Reason(); why {
	case core.Contended:
		return held(l.peers, l.terms.Slots)
	case core.Cancelled:
		return Failure{Reason: why}
	default:
		if l.adopts {
			return l.notExtended(why)
		}
		return missing(l.peers, core.Acquire, why)
	}
}

// end says why the lock is not held any more; no Failure while it is.
func (l *Lock) end() Failure {
	if l.over {
		return l.lost // what the nodes say later is about something else
	}
	switch why := l.attempt.Reason(); why {
	case core.NotOver:
		return Failure{}
	case core.Expired, core.Taken:
		return l.notExtended(why)
	default:
		return Failure{Reason: why}
	}
}

// notExtended lists the nodes whose answer to the last extension does not count, with
// the reason, none if there was no extension. It is called with the mutex held.
func (l *Lock) notExtended(why core.Reason) Failure {
	f := Failure{Reason: why, Op: core.Extend}
	round, _ := l.attempt.Extension()
	for i := range l.peers {
		if round == 0 || l.attempt.Counts(i) {
			continue
		}
		s := l.peers[i].said
		err := s.err
		switch {
		case s.op == core.Extend && err != nil && (s.round == round || why != core.NoQuorum):
			// Perhaps to the extension before the last, which has just begun.
		case s.op != core.Extend || s.round != round:
			if why == core.NoQuorum {
				continue
			}
			err = errors.New("no answer to the last extension yet")
		case s.answer.Status == node.Granted:
			err = errors.New("it had lost the lease, and another client may have had it before it was there again")
		default:
			err = refusal(core.Extend, s.answer)
		}
		f.Nodes = append(f.Nodes, NodeFailure{i, err})
	}
	return f
}
