package sim

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	contract "github.com/fenlock/fenlock/node"
)

// This file is what the shell does around core.Attempt (lock.go and renew.go of
// package fenlock), with events in the place of goroutines.

// client is one process with one Locker.
type client struct {
	w     *world
	id    int
	clock clock
	wall  time.Duration // what its wall clock is ahead of true time

	ttl, nodeTimeout, maxHold time.Duration

	epoch       int // counts its lives: a process that was killed starts anew
	pausedUntil time.Duration
	links       []link // to the nodes
	sent        uint64 // requests

	seen   fence.Token
	held   []*lock
	lines  lines
	users  []*user          // each in a goroutine of its own
	queues [][]*acquisition // by name: the first one asks the nodes
}

func (c *client) now() time.Duration { return c.clock.local(c.w.now) }

// soon runs f in a goroutine of its own, as it were.
func (c *client) soon(f func()) { c.w.atOf(c, c.w.now+c.w.upTo(20*time.Microsecond), f) }

// after runs f when so much time has passed on the client's clock.
func (c *client) after(d time.Duration, f func()) {
	c.w.atOf(c, c.clock.truth(c.now()+max(d, 0)), f)
}

// lock is one attempt, and what becomes of it.
type lock struct {
	c       *client
	id      int // of the attempt, in the whole run
	name    int
	holder  contract.Holder
	waiter  *waiter
	start   time.Duration // on the client's clock
	began   time.Duration // in true time
	attempt core.Attempt
	answers []answer // to the acquire

	decided   bool
	failed    bool
	refusals  []core.Refusal
	onDecided func()

	ended      bool // what the lock's context says
	onEnd      func()
	timer      int  // the number of the timer that counts
	extending  bool // somebody waits for the extension
	again      bool // and somebody for the next
	extendedAt time.Duration
	until      time.Duration
	round      uint32   // of the newest extension that a node refused
	refusers   core.Set // in that round
	released   bool
	onReleased func()
}

// newLock makes an attempt and returns it with what has to be sent.
func (c *client) newLock(name int, w *waiter) (*lock, core.Action) {
	c.w.attempts++
	l := &lock{c: c, id: c.w.attempts, name: name, waiter: w, start: c.now(), began: c.w.now,
		answers: make([]answer, len(c.w.nodes))}
	l.holder = c.w.rules.holder(c, l.id)
	wall := (c.w.now + c.wall).Microseconds()
	var action core.Action
	var ordered core.Set
	if c.w.profile.starters {
		ordered = core.Set(1)<<len(c.w.nodes) - 1
	}
	l.attempt, action = c.w.rules.start(core.Params{Nodes: len(c.w.nodes), TTL: c.ttl, MaxHold: c.maxHold,
		Start: l.start, Proposal: core.Proposal(wall, c.seen), Ordered: ordered})
	c.w.note("client %[1]d begins attempt %[2]d on name %[3]d, proposing %[4]d", c.id, l.id, uint64(name), uint64(action.Token))
	return l, action
}

// fanout is one action under way.
type fanout struct {
	action core.Action
	open   core.Set // nodes whose answer is to come
	places [core.MaxNodes]place
}

// send carries out an action. All its requests are bounded by one timeout.
func (l *lock) send(action core.Action) {
	if action.Op == core.None || action.To == 0 {
		return
	}
	f := &fanout{action: action, open: action.To}
	for i := range l.c.w.nodes {
		switch {
		case !action.To.Has(i):
		case l.c.w.profile.starters:
			l.ask(f, i)
		default: // on a goroutine
			l.c.soon(func() { l.ask(f, i) })
		}
	}
	l.c.after(l.c.w.rules.timeout(l.c, action.Op), func() {
		for i := range l.c.w.nodes {
			if f.open.Has(i) {
				l.hear(f, i, answer{})
			}
		}
	})
}

// ask sends one request of a fanout.
func (l *lock) ask(f *fanout, i int) {
	if !f.open.Has(i) {
		return // its time was up before it was sent
	}
	f.places[i] = l.waiter.request(f.action.Op)
	r := request{op: f.action.Op, name: l.name, holder: l.holder, ttl: l.c.w.rules.lease(l.c), token: f.action.Token, place: f.places[i]}
	l.c.w.rules.request(l.c, i, r, func(a answer) { l.hear(f, i, a) })
}

// hear takes one answer, once, and sends what it asks for.
func (l *lock) hear(f *fanout, i int, a answer) {
	if !f.open.Has(i) {
		return
	}
	f.open &^= core.Set(0).With(i)
	c := l.c
	if a.status == core.Held && !c.w.nodes[i].noLines {
		c.lines.time.Observe(i, l.start, c.now(), a.clock)
	}
	l.send(l.answered(i, f.action, a))
	if took := f.action.Op == core.Acquire && a.status == core.Granted; !took && !c.w.nodes[i].noLines && l.waiter.left(f.places[i]) {
		c.lines.leave(i, l.waiter, func() {})
	}
}

func (l *lock) answered(i int, action core.Action, a answer) (next core.Action) {
	c := l.c
	c.seen = max(c.seen, a.register)
	reply := core.Reply{Status: a.status, Register: a.register}
	now := c.now()
	c.w.note("attempt %[1]d hears from node %[2]d: %[3]d, status %[4]d", l.id, i, uint64(a.register), uint64(a.status)<<8|uint64(action.Op))
	switch action.Op {
	case core.Acquire:
		l.answers[i] = a
		next = c.w.rules.onAcquire(l, i, reply, now)
	case core.Confirm:
		next = c.w.rules.onConfirm(l, i, action.Token, reply, now)
	case core.Extend:
		l.refused(i, action.Round, a.status)
		next = c.w.rules.onExtend(l, i, action.Round, reply, now)
	case core.Release:
		l.attempt.OnRelease(i, reply)
	}
	l.settle(now)
	return next
}

// settle tells whoever waits, and the checkers, what the core has decided.
func (l *lock) settle(now time.Duration) {
	phase := l.attempt.Phase()
	if phase == core.Acquiring || phase == core.Confirming {
		return
	}
	if !l.decided {
		l.decided = true
		if phase == core.Holding {
			if l.waiter != nil {
				l.waiter.waiting = false
			}
			l.until = l.attempt.Until()
			l.c.w.acquired(l)
			l.setTimer(now)
		} else {
			l.failed = true
			l.refusals = l.said()
			l.c.w.note("attempt %[1]d has failed, reason %[2]d", l.id, int(l.attempt.Reason()), 0, 0)
		}
		l.c.soon(l.onDecided)
	}
	if l.failed {
		return
	}
	if phase == core.Holding && l.attempt.Until() > l.until {
		l.until = l.attempt.Until()
		l.c.w.prolonged(l)
	}
	if phase == core.Over && !l.ended {
		l.ended = true
		l.timer++
		l.c.w.endedBy(l)
		if l.onEnd != nil {
			l.c.soon(l.onEnd)
		}
	}
	if l.extending {
		l.settleExtension(now)
	}
	if l.released && l.onReleased != nil {
		if done, _ := l.attempt.ReleaseOutcome(); done {
			l.c.soon(l.onReleased)
			l.onReleased = nil
		}
	}
}

func (l *lock) settleExtension(now time.Duration) {
	round, state := l.attempt.Extension()
	if state == core.Pending {
		return
	}
	l.extending = false
	if l.again {
		l.again = false
		l.c.soon(l.extendNow)
	}
	if state == core.Carried && l.attempt.Phase() == core.Holding {
		l.c.w.carried(l, round)
		l.setTimer(now)
	}
}

func (l *lock) said() []core.Refusal {
	said := make([]core.Refusal, len(l.answers))
	for i, a := range l.answers {
		said[i] = core.Refusal{Status: a.status, Remaining: a.remaining, Ahead: a.ahead}
	}
	return said
}

func (l *lock) startExtend(now time.Duration) core.Action {
	action := l.c.w.rules.startExtend(l, now)
	if action.Op != core.None {
		l.extending, l.extendedAt = true, l.c.w.now
	}
	l.settle(now)
	return action
}

// extendNow is Lock.Extend: it waits for the end of one that is under way.
func (l *lock) extendNow() {
	if l.extending {
		l.again = true
		return
	}
	l.send(l.startExtend(l.c.now()))
}

func (l *lock) setTimer(now time.Duration) {
	l.timer++
	number := l.timer
	next := l.attempt.Until()
	if next <= now {
		next = now + time.Millisecond // a broken core goes on
	}
	if due, ok := l.attempt.ExtendDue(); ok {
		next = min(next, due)
	}
	// No timer fires without time passing, or a broken core would stop the world.
	l.c.after(min(max(next-now, time.Microsecond), l.c.ttl/4), func() {
		if number == l.timer {
			l.tick()
		}
	})
}

func (l *lock) tick() {
	var action core.Action
	now := l.c.now()
	l.c.w.rules.tick(l, now)
	if due, ok := l.attempt.ExtendDue(); ok && now >= due {
		action = l.startExtend(now)
	}
	l.settle(now)
	if l.attempt.Phase() == core.Holding {
		l.setTimer(now)
	}
	l.send(action)
}

// release is Lock.Release.
func (l *lock) release(done func()) {
	now := l.c.now()
	l.c.w.rules.tick(l, now)
	l.released, l.onReleased = true, done
	action := l.c.w.rules.startRelease(l, now)
	l.c.w.note("client %[1]d releases attempt %[2]d", l.c.id, l.id, 0, 0)
	l.settle(now)
	l.send(action)
}
