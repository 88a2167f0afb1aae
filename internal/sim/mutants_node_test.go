package sim

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

// What a node can do wrongly, and the guard of a resource.

var nodeMutants = []mutant{
	{name: "a grant does not move the register", checks: is("tokens"), seeds: 20, broken: func(r *rules) {
		r.acquire = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) core.Reply {
			before := e.Register
			reply := rule.Acquire(e, now, holder, ttl, proposal)
			if reply.Status == core.Granted {
				e.Register = max(before, proposal, 1)
				reply.Register = e.Register
			}
			return reply
		}
	}},
	{name: "confirm does not check the lease", checks: is("validity", "tokens"), seeds: 800, broken: func(r *rules) {
		r.confirm = func(e *rule.Entry, now time.Duration, holder node.Holder, token fence.Token) core.Reply {
			reply := rule.Confirm(e, now, holder, token)
			if reply.Status == core.Lost && e.Register <= token {
				e.Register = token
				reply = core.Reply{Status: core.Granted, Register: token}
			}
			return reply
		}
	}, where: returns},
	{name: "confirm accepts a register past the number", checks: is("tokens", "validity"), seeds: 200, broken: func(r *rules) {
		r.confirm = func(e *rule.Entry, now time.Duration, holder node.Holder, token fence.Token) core.Reply {
			reply := rule.Confirm(e, now, holder, token)
			if reply.Status == core.Outrun {
				e.Register = token
				reply = core.Reply{Status: core.Granted, Register: token}
			}
			return reply
		}
	}},
	{name: "a release removes anybody's lease", seen: "laravel #26213", checks: is("validity"), seeds: 20, broken: func(r *rules) {
		r.release = func(e *rule.Entry, l *rule.Line, now time.Duration, holder node.Holder, p node.Place, reachable func(string) bool) (core.Reply, string) {
			if e.Leased(now) && !e.Holder.Reserves() {
				holder = e.Holder
			}
			return rule.ReleaseInLine(e, l, now, holder, p, reachable)
		}
	}},
	{name: "an extension takes any free lease, whoever had it in between", seen: "redsync's SetNXOnExtend", checks: is("extension", "validity"), seeds: 20, broken: func(r *rules) {
		r.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) core.Reply {
			reply := rule.Extend(e, now, holder, ttl, token)
			if reply.Status == core.Lost && !e.Leased(now) {
				e.Holder, e.Expires = holder, now+ttl
				reply = core.Reply{Status: core.Granted, Register: token}
			}
			return reply
		}
	}, where: steps},
	{name: "an extension takes a lease that is somebody else's", checks: is("extension", "validity"), seeds: 20, broken: func(r *rules) {
		r.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) core.Reply {
			if !e.Out {
				e.Holder = holder
			}
			return rule.Extend(e, now, holder, ttl, token)
		}
	}, where: steps},
	{name: "an extension deletes the lease and reports success", seen: "redislock, PEXPIRE 0", checks: is("validity"), seeds: 20, broken: func(r *rules) {
		r.extend = func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) core.Reply {
			reply := rule.Extend(e, now, holder, ttl, token)
			if reply.Status == core.Granted {
				e.Holder = ""
			}
			return reply
		}
	}},
	{name: "a lease has no end", checks: is("progress", "left over"), seeds: 20, broken: func(r *rules) {
		leasing(r, func(*client) time.Duration { return 1000 * time.Hour })
	}},
	{name: "a node that forgot its locks goes on at once", seen: "redlock-rb #27", checks: is("tokens", "validity"), seeds: 20, broken: func(r *rules) {
		r.quarantine = func(time.Duration) time.Duration { return 0 }
		r.merge = func(int, rebuild.Self, []*node.Registers) (rebuild.Result, error) { return rebuild.Result{}, nil }
	}, where: losses},
	{name: "the quarantine ends early", checks: is("validity", "tokens"), seeds: 300, broken: func(r *rules) {
		r.quarantine = func(maxTTL time.Duration) time.Duration { return maxTTL / 4 }
	}, where: losses},
	{name: "registers are not rebuilt", checks: is("tokens"), seeds: 60, broken: func(r *rules) {
		r.merge = func(n int, self rebuild.Self, answers []*node.Registers) (rebuild.Result, error) {
			result, err := rebuild.Merge(n, self, answers)
			result.Tokens = nil
			return result, err
		}
	}, where: losses},
	{name: "registers are rebuilt from one node too few", checks: is("tokens"), seeds: 2000, broken: func(r *rules) {
		r.merge = func(n int, self rebuild.Self, answers []*node.Registers) (rebuild.Result, error) {
			result, err := rebuild.Merge(n, self, answers)
			admitted, tokens := 0, make(map[int]fence.Token)
			for _, a := range answers {
				if a == nil || !a.Admitted {
					continue
				}
				admitted++
				for stripe, token := range a.Tokens {
					tokens[stripe] = max(tokens[stripe], token)
				}
			}
			if err != nil && admitted == n-core.Quorum(n) {
				return rebuild.Result{Tokens: tokens}, nil
			}
			return result, err
		}
	}, where: lossesUnheard},
	{name: "the guard is off", checks: is("resource"), seeds: 320, broken: func(r *rules) { r.guardOff = true }, where: pauses},
}
