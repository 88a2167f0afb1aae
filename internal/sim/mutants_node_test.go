package sim

import (
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What a node can do wrongly, and the guard of a resource.

// serving lets something happen around every operation of one kind.
func serving(op node.Op, before, after func(s *served)) func(r *rules) {
	return func(r *rules) {
		r.serve = func(e *rule.Entry, q rule.Queue, now time.Duration, asked node.Request) (node.Answer, []string) {
			s := &served{Entry: e, was: *e, q: q, now: now, r: asked}
			concerned := asked.Op == op || op == anyOp
			if concerned && before != nil {
				before(s)
			}
			s.a, s.notified = rule.ServeShared(e, s.q, now, s.r)
			if concerned && after != nil {
				after(s)
			}
			return s.a, s.notified
		}
	}
}

const anyOp node.Op = 0

// served is an operation that is carried out.
type served struct {
	*rule.Entry
	was      rule.Entry
	q        rule.Queue
	now      time.Duration
	r        node.Request
	a        node.Answer
	notified []string
}

// grant makes the answer another one.
func (s *served) grant(register fence.Token) {
	s.a = node.Answer{Status: node.Granted, Register: register}
}

// skipQueue has a free name granted to any client that asks.
func (s *served) skipQueue() {
	if s.q != nil {
		s.q = headless{s.q}
	}
}

// headless is a queue in which no waiter is first.
type headless struct{ rule.Queue }

func (headless) Head() string { return "" }

var nodeMutants = []mutant{
	{name: "a grant does not move the register", checks: is("tokens"), seeds: 20,
		broken: serving(node.Acquire, nil, func(s *served) {
			if s.a.Status == node.Granted {
				s.Register = max(s.was.Register, s.r.Token, 1)
				s.grant(s.Register)
			}
		})},
	{name: "confirm does not check the lease", checks: is("validity", "tokens"), seeds: 800,
		broken: serving(node.Confirm, nil, func(s *served) {
			if s.a.Status == node.Lost && s.Register <= s.r.Token {
				s.Register = s.r.Token
				s.grant(s.Register)
			}
		}), where: returns},
	{name: "confirm accepts a register past the number", checks: is("tokens", "validity"), seeds: 200,
		broken: serving(node.Confirm, nil, func(s *served) {
			if s.a.Status == node.Outrun {
				s.Register = s.r.Token
				s.grant(s.Register)
			}
		}), where: steps},
	{name: "a release removes anybody's lease", seen: "laravel #26213", checks: is("validity"), seeds: 20,
		broken: serving(node.Release, func(s *served) {
			if s.Leased(s.now) && !s.Holder.Reserves() {
				s.r.Holder = s.Holder
			}
		}, nil)},
	{name: "an extension takes any free lease, whoever had it in between", seen: "redsync's SetNXOnExtend",
		checks: is("extension", "validity"), seeds: 20, broken: serving(node.Extend, nil, func(s *served) {
			if s.a.Status == node.Granted && !s.was.Leased(s.now) {
				s.Origin, s.a.Register = 0, 0
			}
		}), where: steps},
	{name: "an extension takes a lease that is somebody else's", checks: is("extension", "validity"), seeds: 20,
		broken: serving(node.Extend, func(s *served) {
			if !s.Out {
				s.Holder = s.r.Holder
			}
		}, nil), where: steps},
	{name: "an extension deletes the lease and reports success", seen: "redislock, PEXPIRE 0", checks: is("validity"),
		seeds: 20, broken: serving(node.Extend, nil, func(s *served) {
			if s.a.Status == node.Granted {
				s.Holder = ""
			}
		})},
	{name: "a lease has no end", checks: is("progress", "left over"), seeds: 20,
		broken: asking(func(_ *process, q *node.Request) { q.TTL = 1000 * time.Hour })},
	{name: "the guard is off", checks: is("resource"), seeds: 320, broken: func(r *rules) { r.guardOff = true },
		where: pauses},
}

// What a node can do wrongly with a name that several share.

func shares(p *profile) { p.shares = true }

func sharedSteps(p *profile) {
	steps(p)
	p.shares = true
}

// downgrading is a world of shared names in which every request is executed twice.
func downgrading(p *profile) {
	sharedSteps(p)
	p.twice, p.nodes, p.users, p.hold, p.trip = 1_000_000, 3, 3, 300*time.Millisecond, 300*time.Microsecond
}

var sharedMutants = []mutant{
	{name: "a name is shared that somebody has alone", checks: is("validity", "tokens", "resource", "extension"),
		seeds: 20, where: shares, broken: serving(node.Acquire, func(s *served) {
			if s.r.Shared && s.Leased(s.now) && !s.Holder.Shared() && !s.Holder.Reserves() {
				s.Holder = ""
			}
		}, nil)},
	{name: "one has a name alone that others share", checks: is("validity", "tokens", "resource", "extension"), seeds: 20,
		where: shares, broken: serving(node.Acquire, func(s *served) {
			if !s.r.Shared && s.Leased(s.now) && s.Holder.Shared() {
				s.Holder = ""
			}
		}, nil)},
	{name: "who had a name alone has it again though others share it", checks: is("extension"), seeds: 200,
		where: sharedSteps, broken: serving(node.Extend, func(s *served) {
			if !s.r.Shared && s.Leased(s.now) && s.Holder.Shared() {
				s.Holder = ""
			}
		}, func(s *served) {
			if !s.r.Shared && s.a.Status == node.Granted && s.was.Leased(s.now) && s.was.Holder.Shared() {
				s.Origin, s.a.Register = 0, 0 // as if no waiter had come
			}
		})},
	{name: "the first who shares a name gets the register as it is", checks: is("tokens"), seeds: 20, where: shares,
		broken: serving(node.Acquire, nil, func(s *served) {
			if s.r.Shared && s.a.Status == node.Granted && !s.was.Leased(s.now) && s.was.Register > 0 {
				s.Holder = node.Holder(strings.ReplaceAll(string(s.Holder), s.Register.String(), s.was.Register.String()))
				s.Register, s.a.Register = s.was.Register, s.was.Register
			}
		})},
	{name: "a confirm makes an epoch", checks: is("tokens"), seeds: 400, where: downgrading,
		broken: serving(node.Confirm, nil, func(s *served) {
			const none = node.SharedPrefix + "0\n"
			if readers, ok := strings.CutPrefix(string(s.Holder), none); ok && s.a.Status == node.Granted {
				s.Holder = node.Holder(node.SharedPrefix + s.r.Token.String() + "\n" + readers)
			}
		})},
}
