package sim

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
	"github.com/fenlock/fenlock/node"
)

// lockRules are what a test can break of the algorithm, as the shell asks it.
type lockRules struct {
	params   func(p *core.Params)
	attempt  func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt
	adoption func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt
	retry    func(honest shell.Retry) shell.Retry
	nodeTime func(honest shell.NodeTime) shell.NodeTime
	timeout  func(c *process, op core.Op, shipped time.Duration) time.Duration
}

// clientRules are what a client's shell asks: what ships, with what a test broke, and
// a look at each step for the checkers. It implements shell.Rules.
type clientRules struct {
	shell.Shipped
	c     *client
	rules *lockRules
}

// Attempt implements shell.Rules.
func (r clientRules) Attempt(own *core.Attempt, values context.Context, holder node.Holder,
	p core.Params) (shell.Attempt, core.Action) {
	c, w := r.c, r.c.w
	r.rules.params(&p)
	l := r.newLock(values, holder)
	l.ttl = p.TTL
	honest, action := r.Shipped.Attempt(own, values, holder, p)
	l.attempt = r.rules.attempt(l, honest, p)
	l.steps = w.steps.Begins(l.name, holder, l.a.shared)
	w.note("client %[1]d begins attempt %[2]d on name %[3]d, proposing %[4]d", c.id, l.id, uint64(l.name),
		uint64(action.Token))
	return watched{l.attempt, l}, action
}

// newLock notes that an attempt begins.
func (r clientRules) newLock(values context.Context, holder node.Holder) *lock {
	c, w := r.c, r.c.w
	w.attempts++
	a := values.Value(caller{}).(*acquisition)
	a.lock = &lock{c: c, a: a, id: w.attempts, holder: holder, name: a.name, start: c.now(), asked: w.now, began: w.now}
	a.tries++
	return a.lock
}

// Adoption implements shell.Rules.
func (r clientRules) Adoption(own *core.Attempt, values context.Context, holder node.Holder, p core.Params, token,
	mark fence.Token) (shell.Attempt, core.Action) {
	w := r.c.w
	r.rules.params(&p)
	l := r.newLock(values, holder)
	l.ttl = p.TTL
	l.extend(1, p.Start)
	honest, action := r.Shipped.Adoption(own, values, holder, p, token, mark)
	l.attempt = r.rules.adoption(l, honest, p)
	l.steps = w.steps.Adopts(l.name, holder, l.a.shared, token, mark)
	w.note("client %[1]d begins attempt %[2]d, to adopt name %[3]d with token %[4]d", r.c.id, l.id, uint64(l.name),
		uint64(token))
	return watched{l.attempt, l}, action
}

// Given implements shell.Rules. What is given is an acquire of the waiter's that comes late: of a
// waiter that has asked by the attempt before.
func (r clientRules) Given(own *core.Attempt, values context.Context, holder node.Holder, p core.Params,
	number fence.Token, until time.Duration) shell.Attempt {
	w := r.c.w
	r.rules.params(&p)
	before := values.Value(caller{}).(*acquisition).lock
	l := r.newLock(values, holder)
	l.ttl, l.given = p.TTL, until
	l.asked = before.asked
	// It may be of an attempt before the last one: its age goes by the nodes' clocks. Or an
	// operator has taken it from the nodes before its waiter heard.
	if a := l.a; !w.rests(steadyClocks | nothingForced) {
		l.asked = a.came
	}
	w.result.Given++
	w.note("client %[1]d takes name %[3]d as attempt %[2]d, with token %[4]d", r.c.id, l.id, uint64(l.name),
		uint64(number))
	l.attempt = r.Shipped.Given(own, values, holder, p, number, until)
	l.steps = w.steps.Given(l.name, holder)
	l.look()
	return watched{l.attempt, l}
}

// Retry implements shell.Rules.
func (r clientRules) Retry(own *core.Retry) shell.Retry { return r.rules.retry(own) }

// NodeTime implements shell.Rules.
func (r clientRules) NodeTime(own *core.NodeTime) shell.NodeTime { return r.rules.nodeTime(own) }

// Timeout implements shell.Rules.
func (r clientRules) Timeout(op core.Op, d time.Duration) time.Duration {
	return r.rules.timeout(&r.c.process, op, d)
}

// watched is an attempt whose steps are told to the checkers.
type watched struct {
	shell.Attempt
	l *lock
}

func (t watched) OnAcquire(node int, r core.Reply, now time.Duration) core.Action {
	t.heard(node, core.Acquire, r)
	return t.look(t.Attempt.OnAcquire(node, r, now))
}

func (t watched) OnLateAcquire(node int, r core.Reply, now time.Duration) core.Action {
	t.heard(node, core.Acquire, r)
	return t.look(t.Attempt.OnLateAcquire(node, r, now))
}

func (t watched) OnConfirm(node int, asked fence.Token, r core.Reply, now time.Duration) core.Action {
	t.heard(node, core.Confirm, r)
	return t.look(t.Attempt.OnConfirm(node, asked, r, now))
}

func (t watched) OnExtend(node int, round uint32, asked fence.Token, r core.Reply, now time.Duration) core.Action {
	t.heard(node, core.Extend, r)
	if asked == 0 {
		t.l.refused(node, round, r.Status == core.Lost || r.Status == core.Granted && r.Register > t.Token())
	}
	return t.look(t.Attempt.OnExtend(node, round, asked, r, now))
}

func (t watched) OnRelease(node int, r core.Reply) {
	t.heard(node, core.Release, r)
	t.Attempt.OnRelease(node, r)
	t.l.look()
}

func (t watched) Tick(now time.Duration) {
	t.Attempt.Tick(now)
	t.l.look()
}

func (t watched) StartExtend(now time.Duration) core.Action {
	return t.look(t.l.extends(now, t.Attempt.StartExtend))
}

func (t watched) Renew(now time.Duration) core.Action {
	return t.look(t.l.extends(now, t.Attempt.Renew))
}

func (t watched) StartRelease(now time.Duration) core.Action {
	return t.look(t.Attempt.StartRelease(now))
}
func (t watched) Cancel() core.Action { return t.look(t.Attempt.Cancel()) }
func (t watched) Hurry() core.Action  { return t.look(t.Attempt.Hurry()) }

func (t watched) OfferExport() fence.Token {
	mark := t.Attempt.OfferExport()
	t.l.steps.Offers(mark)
	return mark
}

func (t watched) Export(mark fence.Token, now time.Duration) bool {
	done := t.Attempt.Export(mark, now)
	if done {
		t.l.steps.Exported(mark)
	}
	return done
}

func (t watched) look(action core.Action) core.Action {
	t.l.look()
	return action
}

func (t watched) heard(node int, op core.Op, r core.Reply) {
	t.l.c.w.note("attempt %[1]d hears from node %[2]d: %[3]d, status %[4]d",
		t.l.id, node, uint64(r.Register), uint64(r.Status)<<8|uint64(op))
}

// look tells the checkers what a step has changed.
func (l *lock) look() {
	w := l.c.w
	l.steps.Told(l.attempt, l.a.shared, l.roundsFrom)
	phase := l.attempt.Phase()
	if phase == core.Acquiring || phase == core.Confirming || phase == core.Adopting {
		return
	}
	if !l.decided {
		l.decided = true
		if phase == core.Holding {
			l.until = l.attempt.Until()
			l.acquired()
		} else {
			w.note("attempt %[1]d has failed, reason %[2]d", l.id, int(l.attempt.Reason()), 0, 0)
		}
	}
	if phase != core.Holding {
		return
	}
	if until := l.attempt.Until(); until > l.until {
		l.until = until
		until = l.c.clock.truth(until)
		w.note("attempt %[1]d holds name %[2]d until %[4]d", l.id, l.name, 0, uint64(until))
		w.check(steadyClocks|nothingForced, "validity", w.validity.Extended(l.name, l.id, w.now, until))
		w.check(always, "tenure", l.tooLong())
		if could := l.countsFrom(l.until); len(could) > 0 && could[0] != l.rounds[len(l.rounds)-1] {
			x := could[0]
			w.result.Late++
			w.note("attempt %[1]d has extended late, round %[2]d", l.id, int(x.round), 0, 0)
			w.check(registersSurvive, "extension", w.tokens.Extended(l.name, l.id, l.token(), x.at))
		}
	}
	if round, state := l.attempt.Extension(); state == core.Carried && round > l.carried {
		l.carried = round
		w.result.Extended++
		w.note("attempt %[1]d has extended, round %[2]d", l.id, int(round), 0, 0)
		w.check(registersSurvive, "extension", w.tokens.Extended(l.name, l.id, l.token(), l.extendedAt))
	}
}
