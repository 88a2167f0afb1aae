package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	contract "github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What the side of the client can do wrongly: votes, validity, extensions, cleaning
// up, requests.

var votingMutants = []mutant{
	{name: "the largest grant is the token, without confirm", checks: is("tokens"), seeds: 100, broken: func(r *rules) {
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
	}},
	{name: "a quorum is one node less than a majority", checks: is("validity", "tokens"), seeds: 40, broken: func(r *rules) {
		quorumOf(r, func(n int) int { return max(core.Quorum(n)-1, 1) })
	}},
	{name: "of an even number of nodes, half are a quorum", seen: "redlock-php #6", checks: is("validity", "tokens"), seeds: 60, broken: func(r *rules) {
		quorumOf(r, func(n int) int { return (n + 1) / 2 })
	}},
	{name: "a quorum of the nodes that are connected is enough", seen: "redlock-py #6", checks: is("validity", "tokens"), seeds: 20, broken: connectedOnly},
	{name: "unknown counts as a grant", checks: is("validity", "tokens"), seeds: 20, broken: func(r *rules) {
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
	}},
	{name: "one node that does not answer fails the attempt", seen: "redsync #186", checks: is("progress"), seeds: 20, broken: func(r *rules) {
		hung(r)
		said := perLock[[]heard]{}
		r.onAcquire = func(l *lock, node int, reply core.Reply, now time.Duration) (action core.Action) {
			if l.attempt.Phase() != core.Acquiring {
				return l.attempt.OnAcquire(node, reply, now)
			}
			all := said.of(l)
			if *all = append(*all, heard{node, reply}); len(*all) < len(l.c.w.nodes) {
				return core.Action{}
			}
			if slices.ContainsFunc(*all, func(h heard) bool { return h.reply.Status == core.Unknown }) {
				return l.attempt.Cancel()
			}
			for _, h := range *all {
				if next := l.attempt.OnAcquire(h.node, h.reply, now); next.Op != core.None {
					action = next
				}
			}
			return action
		}
	}, where: five},
	{name: "leases that come after the end of the validity are a lock", seen: "etcd #19597", checks: is("tenure", "validity"), seeds: 100, broken: func(r *rules) {
		inTime := func(l *lock, now time.Duration) time.Duration {
			return min(now, core.Validity(l.start, l.c.ttl)-1)
		}
		r.onAcquire = func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
			return l.attempt.OnAcquire(node, reply, inTime(l, now))
		}
		r.onConfirm = func(l *lock, node int, asked fence.Token, reply core.Reply, now time.Duration) core.Action {
			return l.attempt.OnConfirm(node, asked, reply, inTime(l, now))
		}
	}, where: pausedInLine},
	{name: "an identity is used again by the next attempt", checks: is("validity", "tokens", "extension", "tenure"), seeds: 10, broken: func(r *rules) {
		r.holder = func(c *client, _ int) contract.Holder { return contract.Holder(fmt.Sprint("client ", c.id)) }
	}, where: busy},
	{name: "who was replaced by a new process shares its identity, and what one has the other is granted", seen: "etcd #11456", checks: is("validity", "tokens"), seeds: 20, broken: func(r *rules) {
		r.holder = func(c *client, _ int) contract.Holder { return contract.Holder(fmt.Sprint("client ", c.id)) }
		serving(r, contract.Acquire, func(s *served) {
			if s.Holder == s.r.Holder {
				s.Holder = ""
				s.skipQueue()
			}
		}, nil)
	}},
}

var validityMutants = []mutant{
	{name: "the validity has no drift", checks: is("validity"), seeds: 2000, broken: startLater(1), where: cuts},
	{name: "the drift is added to the validity", seen: "redlock-py #3", checks: is("validity"), seeds: 80, broken: startLater(2), where: cuts},
	{name: "the validity counts from the replies", seen: "node-redlock #274", checks: is("validity"), seeds: 50, broken: func(r *rules) {
		r.onAcquire = fromTheReply(false)
	}, where: pausedTrying},
	{name: "the validity counts from the last retry", seen: "node-redlock #276", checks: is("validity"), seeds: 1500, broken: func(r *rules) {
		r.onAcquire = fromTheReply(true)
	}, where: pausedHolding},
	{name: "an extension counts from its replies", seen: "node-redlock #369", checks: is("validity"), seeds: 2000, broken: extendedFromTheReply, where: lateCuts},
	{name: "the lease ends at a time of the client's wall clock", seen: "rueidislock", checks: is("validity"), seeds: 20, broken: func(r *rules) {
		r.lease = func(c *client) time.Duration { return c.ttl + c.wall - 1000*time.Hour }
	}},
	{name: "a context outlives the lease by the interval of extensions", seen: "rueidislock", checks: is("tenure"), seeds: 20, broken: func(r *rules) {
		r.tick = func(l *lock, now time.Duration) { l.attempt.Tick(now - l.c.ttl/3) }
		r.startExtend = func(l *lock, now time.Duration) core.Action {
			if now >= l.attempt.Until() {
				return core.Action{}
			}
			return l.attempt.StartExtend(now)
		}
	}},
	{name: "a lock that has run out goes on", checks: is("validity", "extension", "tenure"), seeds: 20, broken: func(r *rules) {
		// For a quarter of the TTL, since it has to end at some time.
		still := func(l *lock, now time.Duration) time.Duration {
			if until := l.attempt.Until(); now < until+l.c.ttl/4 && l.attempt.Phase() == core.Holding {
				return min(now, until-1)
			}
			return now
		}
		r.tick = func(l *lock, now time.Duration) { l.attempt.Tick(still(l, now)) }
		r.startExtend = func(l *lock, now time.Duration) core.Action { return l.attempt.StartExtend(still(l, now)) }
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			return l.attempt.OnExtend(node, round, reply, still(l, now))
		}
	}, where: pauses},
	{name: "the maximum hold is ignored", checks: is("tenure"), seeds: 40, broken: func(r *rules) {
		r.start = func(p core.Params) (core.Attempt, core.Action) {
			p.MaxHold = 0
			return core.NewAttempt(p)
		}
	}},
}

var extensionMutants = []mutant{
	{name: "unknown counts as an extension", checks: is("validity", "extension"), seeds: 80, broken: func(r *rules) {
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			if reply.Status == core.Unknown {
				reply = core.Reply{Status: core.Granted, Register: l.attempt.Token()}
			}
			return l.attempt.OnExtend(node, round, reply, now)
		}
	}},
	{name: "every acceptance of an extension counts", checks: is("extension"), seeds: 2000, broken: func(r *rules) {
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			reply.Register = min(reply.Register, l.attempt.Token())
			return l.attempt.OnExtend(node, round, reply, now)
		}
	}, where: returns},
	{name: "one node that does not answer loses the lock", seen: "redsync #186", checks: is("tenure"), seeds: 20, broken: func(r *rules) {
		r.onExtend = losesIf(func(l *lock, s core.Status) bool { return s == core.Unknown })
	}},
	{name: "an extension that misses drops the quorum that is held", seen: "redsync #151", checks: is("tenure"), seeds: 20, broken: func(r *rules) {
		r.onExtend = losesIf(func(l *lock, _ core.Status) bool {
			_, state := l.attempt.Extension()
			return state == core.Missed
		})
	}},
	{name: "a renewal dies silently", seen: "redisson #5698", checks: is("tenure"), seeds: 20, broken: func(r *rules) {
		dead := perLock[bool]{}
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			if reply.Status == core.Unknown {
				*dead.of(l) = true
			}
			if *dead.of(l) && l.attempt.Phase() == core.Holding {
				return core.Action{}
			}
			return l.attempt.OnExtend(node, round, reply, now)
		}
		r.tick = func(l *lock, now time.Duration) {
			if !*dead.of(l) {
				l.attempt.Tick(now)
			}
		}
		r.startExtend = func(l *lock, now time.Duration) core.Action {
			if *dead.of(l) {
				return core.Action{}
			}
			return l.attempt.StartExtend(now)
		}
	}},
	{name: "a renewal goes on after the release", seen: "redisson #7272", checks: is("left over", "progress"), seeds: 20, broken: func(r *rules) {
		const after = 1 << 30
		r.startRelease = func(l *lock, now time.Duration) core.Action {
			var again func()
			again = func() {
				l.send(core.Action{Op: core.Extend, To: 1<<len(l.c.w.nodes) - 1, Token: l.attempt.Token(), Round: after})
				l.c.after(l.c.ttl/3, again)
			}
			l.c.after(l.c.ttl/3, again)
			return l.attempt.StartRelease(now)
		}
		r.onExtend = func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
			if round == after {
				return core.Action{}
			}
			return l.attempt.OnExtend(node, round, reply, now)
		}
	}, where: idle},
}

// startLater starts the validity later by so many drifts.
func startLater(drifts time.Duration) func(r *rules) {
	return func(r *rules) {
		r.start = func(p core.Params) (core.Attempt, core.Action) {
			p.Start += drifts * rule.Drift(p.TTL)
			return core.NewAttempt(p)
		}
	}
}

// heard is an answer that is given to an attempt again.
type heard struct {
	node  int
	reply core.Reply
}

// fromTheReply starts an attempt anew with every reply, as if it began only now;
// or with the confirm, as if that were a new attempt.
func fromTheReply(confirmOnly bool) func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
	all := perLock[[]heard]{}
	return func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
		before := l.attempt
		action := l.attempt.OnAcquire(node, reply, now)
		if before.Phase() != core.Acquiring {
			return action
		}
		said := all.of(l)
		*said = append(*said, heard{node, reply})
		if confirmOnly && action.Op != core.Confirm {
			return action
		}
		late, _ := core.NewAttempt(core.Params{Nodes: len(l.c.w.nodes), TTL: l.c.ttl, Start: now})
		if l.c.maxHold > 0 {
			late, _ = core.NewAttempt(core.Params{Nodes: len(l.c.w.nodes), TTL: l.c.ttl, MaxHold: l.start + l.c.maxHold - now, Start: now})
		}
		for _, h := range *said {
			action = late.OnAcquire(h.node, h.reply, now)
		}
		l.attempt = late
		return action
	}
}

// extendedFromTheReply starts an extension anew with every reply.
func extendedFromTheReply(r *rules) {
	type round struct {
		before core.Attempt
		said   []heard
	}
	rounds := perLock[round]{}
	longExtensions(r)
	r.startExtend = func(l *lock, now time.Duration) core.Action {
		*rounds.of(l) = round{before: l.attempt}
		return l.attempt.StartExtend(now)
	}
	r.onExtend = func(l *lock, node int, number uint32, reply core.Reply, now time.Duration) core.Action {
		latest, state := l.attempt.Extension()
		l.attempt.Tick(now)
		if state != core.Pending || number != latest || l.attempt.Phase() != core.Holding {
			return l.attempt.OnExtend(node, number, reply, now)
		}
		from := rounds.of(l)
		from.said = append(from.said, heard{node, reply})
		again := from.before
		again.StartExtend(now)
		var action core.Action
		for _, h := range from.said {
			action = again.OnExtend(h.node, number, h.reply, now)
		}
		l.attempt = again
		return action
	}
}

// longExtensions wait for their answers for longer.
func longExtensions(r *rules) {
	r.timeout = func(c *client, op core.Op) time.Duration {
		if op == core.Extend {
			return c.ttl
		}
		return c.nodeTimeout
	}
}

// losesIf ends the lock when an answer to an extension is such.
func losesIf(lost func(l *lock, s core.Status) bool) func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
	return func(l *lock, node int, round uint32, reply core.Reply, now time.Duration) core.Action {
		action := l.attempt.OnExtend(node, round, reply, now)
		if l.attempt.Phase() == core.Holding && lost(l, reply.Status) {
			round, _ = l.attempt.Extension()
			for i := range l.c.w.nodes {
				l.attempt.OnExtend(i, round, core.Reply{Status: core.Lost}, now)
			}
		}
		return action
	}
}

// quorumOf counts votes with a quorum of its own: what is missing to the real
// one is made up.
func quorumOf(r *rules, quorum func(n int) int) {
	type count struct{ acquire, confirm core.Set }
	counts := perLock[count]{}
	asked := perLock[fence.Token]{}
	enough := func(l *lock, s *core.Set, node int, reply core.Reply) bool {
		if reply.Status == core.Granted {
			*s = s.With(node)
		}
		return s.Len() >= quorum(len(l.c.w.nodes))
	}
	r.onAcquire = func(l *lock, node int, reply core.Reply, now time.Duration) core.Action {
		action := l.attempt.OnAcquire(node, reply, now)
		if enough(l, &counts.of(l).acquire, node, reply) {
			for i := range l.c.w.nodes {
				if l.attempt.Phase() == core.Acquiring {
					action = l.attempt.OnAcquire(i, core.Reply{Status: core.Granted, Register: reply.Register}, now)
				}
			}
		}
		return action
	}
	r.onConfirm = func(l *lock, node int, token fence.Token, reply core.Reply, now time.Duration) core.Action {
		action := l.attempt.OnConfirm(node, token, reply, now)
		if last := asked.of(l); *last != token {
			*last, counts.of(l).confirm = token, 0
		}
		if enough(l, &counts.of(l).confirm, node, reply) {
			for i := range l.c.w.nodes {
				if l.attempt.Phase() == core.Confirming {
					l.attempt.OnConfirm(i, token, core.Reply{Status: core.Granted, Register: token}, now)
				}
			}
		}
		return action
	}
}

// connectedOnly counts a quorum of those nodes that answer.
func connectedOnly(r *rules) {
	type count struct {
		granted, silent core.Set
		answered        int
		largest         fence.Token
	}
	counts := perLock[count]{}
	r.onAcquire = func(l *lock, node int, reply core.Reply, now time.Duration) (action core.Action) {
		if l.attempt.Phase() != core.Acquiring {
			return l.attempt.OnAcquire(node, reply, now)
		}
		c := counts.of(l)
		c.answered++
		switch reply.Status {
		case core.Unknown:
			c.silent = c.silent.With(node)
		case core.Granted:
			c.granted, c.largest = c.granted.With(node), max(c.largest, reply.Register)
			fallthrough
		default:
			action = l.attempt.OnAcquire(node, reply, now)
		}
		n := len(l.c.w.nodes)
		if c.answered < n {
			return action
		}
		if c.granted.Len() >= core.Quorum(n-c.silent.Len()) {
			reply = core.Reply{Status: core.Granted, Register: c.largest}
		} else {
			reply = core.Reply{}
		}
		for i := range n {
			if c.silent.Has(i) && l.attempt.Phase() == core.Acquiring {
				action = l.attempt.OnAcquire(i, reply, now)
			}
		}
		return action
	}
}
