package sim

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rebuild"
	"github.com/fenlock/fenlock/internal/rule"
)

// mutant is the algorithm with one thing wrong, and the checkers that are to
// notice within some seeds.
type mutant struct {
	name   string
	checks []string
	seeds  int
	broken func(r *rules)
	// A mistake that shows under rare conditions only is looked for where they
	// are not rare.
	where func(p *profile)
}

// steps is a world of leases that vanish, and of registers that differ.
func steps(p *profile) {
	p.breaks, p.unset, p.only = steadyClocks, true, nodeStepped
	p.pace, p.trip, p.rest = 50*time.Millisecond, 20*time.Millisecond, 30*time.Millisecond
	p.loss, p.tail = 20_000, 50_000
	p.ordered, p.twice = false, 0
}

func pauses(p *profile) {
	p.only, p.pace, p.loss, p.tail = pausedForTTL, 400*time.Millisecond, 0, 0
}

func losses(p *profile) { p.only, p.pace = emptied, 400*time.Millisecond }

func cuts(p *profile) { p.only, p.pace, p.hold = clientCut, 400*time.Millisecond, 10*time.Second }

var mutants = []mutant{
	{"the largest grant is the token without confirm", []string{"tokens"}, 4000, func(r *rules) {
		honest := r.onAcquire
		r.onAcquire = func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
			action := honest(l, node, reply, now)
			if action.Op != core.Confirm {
				return action
			}
			for i, a := range l.answers {
				if a.status == core.Granted {
					l.attempt.OnConfirm(i, action.Token, core.Reply{Status: core.Granted, Register: action.Token}, now)
				}
			}
			return core.Action{}
		}
	}, nil},
	{"confirm does not check the lease", []string{"validity", "tokens"}, 4000, func(r *rules) {
		r.confirm = func(e *rule.Entry, now time.Duration, holder string, token fence.Token) core.Reply {
			reply := rule.Confirm(e, now, holder, token)
			if reply.Status == core.Lost && e.Register <= token {
				e.Register = token
				reply = core.Reply{Status: core.Granted, Register: token}
			}
			return reply
		}
	}, steps},
	{"confirm accepts a register past the number", []string{"tokens", "validity"}, 4000, func(r *rules) {
		r.confirm = func(e *rule.Entry, now time.Duration, holder string, token fence.Token) core.Reply {
			reply := rule.Confirm(e, now, holder, token)
			if reply.Status == core.Outrun {
				e.Register = token
				reply = core.Reply{Status: core.Granted, Register: token}
			}
			return reply
		}
	}, nil},
	{"an empty node votes", []string{"tokens", "validity"}, 500, func(r *rules) {
		r.quarantine = func(time.Duration) time.Duration { return 0 }
		r.merge = func(int, rebuild.Self, []*fenlock.Registers) (rebuild.Result, error) { return rebuild.Result{}, nil }
	}, losses},
	{"the quarantine ends early", []string{"validity", "tokens"}, 500, func(r *rules) {
		r.quarantine = func(maxTTL time.Duration) time.Duration { return maxTTL / 4 }
	}, losses},
	{"registers are not rebuilt", []string{"tokens"}, 4000, func(r *rules) {
		r.merge = func(n int, self rebuild.Self, answers []*fenlock.Registers) (rebuild.Result, error) {
			result, err := rebuild.Merge(n, self, answers)
			result.Tokens = nil
			return result, err
		}
	}, losses},
	{"the validity has no drift", []string{"validity"}, 2000, func(r *rules) {
		r.start = func(p core.Params) (core.Attempt, core.Action) {
			p.Start += core.Drift(p.TTL)
			return core.NewAttempt(p)
		}
	}, cuts},
	{"the validity counts from the reply", []string{"validity"}, 2000, func(r *rules) {
		r.onAcquire = fromTheReply()
	}, pauses},
	{"unknown counts as a grant", []string{"validity", "tokens"}, 500, func(r *rules) {
		honest := r.onAcquire
		r.onAcquire = func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
			if reply.Status == core.Unknown {
				reply = core.Reply{Status: core.Granted, Register: max(l.attempt.Token(), 1)}
			}
			return honest(l, node, reply, now)
		}
		r.onConfirm = func(l *lock, node int, asked fence.Token, reply core.Reply, now time.Duration) core.Action {
			if reply.Status == core.Unknown {
				reply = core.Reply{Status: core.Granted, Register: asked}
			}
			return l.attempt.OnConfirm(node, asked, reply, now)
		}
	}, nil},
	{"unknown counts as an extension", []string{"validity", "extension"}, 500, func(r *rules) {
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			if reply.Status == core.Unknown {
				reply = core.Reply{Status: core.Granted, Register: l.attempt.Token()}
			}
			return l.attempt.OnExtend(node, round, reply, now)
		}
	}, nil},
	{"the guard is off", []string{"resource"}, 500, func(r *rules) { r.guardOff = true }, pauses},
	{"a release removes anybody's lease", []string{"validity"}, 500, func(r *rules) {
		r.release = func(e *rule.Entry, l *rule.Line, now time.Duration, holder string, p rule.Place, reachable func(string) bool) (core.Reply, string) {
			if e.Leased(now) && !rule.IsReserved(e.Holder) {
				holder = e.Holder
			}
			return rule.ReleaseInLine(e, l, now, holder, p, reachable)
		}
	}, nil},
	{"an extension repairs any free lease", []string{"extension", "validity"}, 4000, func(r *rules) {
		r.extend = func(e *rule.Entry, now time.Duration, holder string, ttl time.Duration, token fence.Token) core.Reply {
			reply := rule.Extend(e, now, holder, ttl, token)
			if reply.Status == core.Lost && !e.Leased(now) {
				e.Holder, e.Expires = holder, now+ttl
				reply = core.Reply{Status: core.Granted, Register: token}
			}
			return reply
		}
	}, steps},
	{"every acceptance of an extension counts", []string{"extension"}, 4000, func(r *rules) {
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			reply.Register = min(reply.Register, l.attempt.Token())
			return l.attempt.OnExtend(node, round, reply, now)
		}
	}, steps},
	{"a lock that has run out goes on", []string{"validity", "extension"}, 500, func(r *rules) {
		r.tick = func(*lock, time.Duration) {}
		r.startExtend = func(l *lock, now time.Duration) core.Action {
			return l.attempt.StartExtend(min(now, l.attempt.Until()-1))
		}
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			if l.attempt.Phase() == core.Holding {
				now = min(now, l.attempt.Until()-1)
			}
			return l.attempt.OnExtend(node, round, reply, now)
		}
	}, losses},
	{"calls are lost for ever, and nobody looks again", []string{"progress"}, 20, func(r *rules) {
		r.callLost = func() bool { return true }
		r.due = func(*core.Turn) time.Duration { return 1 << 62 }
	}, nil},
	{"a waiter is never forgotten", []string{"left over"}, 20, func(r *rules) {
		r.forget = func(*lines, *waiter) {}
	}, nil},
	{"a release calls nobody and nobody looks again soon", []string{"progress"}, 500, func(r *rules) {
		r.callLost = func() bool { return true }
		honest := r.due
		r.due = func(t *core.Turn) time.Duration { return honest(t) + 10*core.Backstop }
	}, nil},
	{"a release leaves its waiter in the line", []string{"left over"}, 500, func(r *rules) {
		r.release = func(e *rule.Entry, l *rule.Line, now time.Duration, holder string, p rule.Place, reachable func(string) bool) (core.Reply, string) {
			kept := len(*l) > 0 && p.Stamp == 0 && l.Ahead(p.Waiter) < len(*l)
			reply, called := rule.ReleaseInLine(e, l, now, holder, p, reachable)
			if kept {
				l.Join(rule.Place{Waiter: p.Waiter, Stamp: 1})
			}
			return reply, called
		}
	}, nil},
}

// fromTheReply starts an attempt anew with every reply, as if it began only now.
func fromTheReply() func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
	type heard struct {
		node  int
		reply core.Reply
	}
	all := make(map[*lock][]heard)
	return func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
		if l.attempt.Phase() != core.Acquiring {
			return l.attempt.OnAcquire(node, reply, now)
		}
		all[l] = append(all[l], heard{node, reply})
		late, _ := core.NewAttempt(core.Params{Nodes: len(l.c.w.nodes), TTL: l.c.ttl, MaxHold: l.c.maxHold, Start: now})
		var action core.Action
		for _, h := range all[l] {
			action = late.OnAcquire(h.node, h.reply, now)
		}
		l.attempt = late
		return action
	}
}

func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			rules := shipped()
			m.broken(&rules)
			for seed := range uint64(m.seeds) {
				r := Run(seed, Options{rules: &rules, profile: m.where})
				for _, v := range r.Violations {
					for _, check := range m.checks {
						if v.Check == check {
							t.Logf("after %d seeds: %v", seed+1, v)
							return
						}
					}
				}
			}
			t.Errorf("not noticed in %d seeds", m.seeds)
		})
	}
}

// What the shipped code does in the worlds that are made for the mutants: a
// mistake is noticed there for what it is, not for the world.
func TestShippedAmongTheMutants(t *testing.T) {
	for name, where := range map[string]func(*profile){"steps": steps, "pauses": pauses, "losses": losses, "cuts": cuts} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(300)
			if testing.Short() || race {
				seeds = 10
			}
			for seed := range seeds {
				r := Run(seed, Options{profile: where})
				for _, v := range r.Violations {
					t.Errorf("seed %d: %v", seed, v)
				}
			}
		})
	}
}
