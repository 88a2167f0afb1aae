package sim

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// What the side of the client can do wrongly: votes, validity, extensions, cleaning
// up, requests.

var votingMutants = []mutant{
	{name: "the largest grant is the token, without confirm", checks: is("tokens"), seeds: 100,
		broken: breaking(func(l *lock, b *broken) {
			b.answers(core.Acquire, func(x answer) core.Action {
				action := b.honest(x)
				if action.Op != core.Confirm {
					return action
				}
				b.confirms(action.Token, x.now)
				return core.Action{}
			})
		})},
	{name: "a quorum is one node less than a majority", checks: is("validity", "tokens"), seeds: 40,
		broken: quorumOf(func(n int) int { return max(core.Quorum(n)-1, 1) })},
	{name: "of an even number of nodes, half are a quorum", seen: "redlock-php #6", checks: is("validity", "tokens"),
		seeds: 60, broken: quorumOf(func(n int) int { return (n + 1) / 2 })},
	{name: "a quorum of the nodes that are connected is enough", seen: "redlock-py #6", checks: is("validity", "tokens"),
		seeds: 20, broken: breaking(connectedOnly)},
	{name: "unknown counts as a grant", checks: is("validity", "tokens"), seeds: 20,
		broken: unknownIs(core.Granted, core.Acquire, core.Confirm)},
	{name: "one node that does not answer fails the attempt", seen: "redsync #186", checks: is("progress"), seeds: 20,
		broken: all(hung, breaking(func(l *lock, b *broken) {
			b.answers(core.Acquire, func(x answer) (action core.Action) {
				switch {
				case b.Phase() != core.Acquiring:
					return b.honest(x)
				case len(b.heard) < b.p.Nodes:
					return core.Action{}
				case slices.ContainsFunc(b.heard, func(h answer) bool { return h.Status == core.Unknown }):
					return b.Attempt.Cancel()
				}
				for _, h := range b.heard {
					if next := b.Attempt.OnAcquire(h.node, h.Reply, x.now); next.Op != core.None {
						action = next
					}
				}
				return action
			})
		})), where: five},
	{name: "leases that come after the end of the validity are a lock", seen: "etcd #19597",
		checks: is("tenure", "validity"), seeds: 300, broken: mishearing(func(b *broken, x *answer) {
			if x.of != core.Extend {
				x.now = min(x.now, core.Validity(b.p.Start, b.p.TTL)-1)
			}
		}), where: pausedInQueue},
	{name: "an identity is used again by the next attempt", checks: is("validity", "tokens", "extension", "tenure"),
		seeds: 10, broken: sameIdentity, where: busy},
	{name: "who was replaced by a new process shares its identity, and what one has the other is granted",
		seen: "etcd #11456", checks: is("validity", "tokens"), seeds: 20,
		broken: all(sameIdentity, serving(node.Acquire, func(s *served) {
			if s.Holder == s.r.Holder {
				s.Holder = ""
				s.skipQueue()
			}
		}, nil))},
}

func sameIdentity(r *rules) { r.identity = func(c *process, _ int) int { return 1<<40 + c.id } }

var validityMutants = []mutant{
	{name: "the validity has no drift", checks: is("validity"), seeds: 2000, broken: startLater(1), where: cuts},
	{name: "the drift is added to the validity", seen: "redlock-py #3", checks: is("validity"), seeds: 300,
		broken: startLater(2), where: cuts},
	{name: "the validity counts from the replies", seen: "node-redlock #274", checks: is("validity"), seeds: 250,
		broken: breaking(fromTheReply(false)), where: pausedTrying},
	{name: "the validity counts from the last retry", seen: "node-redlock #276", checks: is("validity"), seeds: 4000,
		broken: breaking(fromTheReply(true)), where: pausedHolding},
	{name: "an extension counts from its replies", seen: "node-redlock #369", checks: is("validity"), seeds: 2000,
		broken: all(longExtensions, breaking(extendedFromTheReply)), where: lateCuts},
	{name: "the lease ends at a time of the client's wall clock", seen: "rueidislock", checks: is("validity"), seeds: 20,
		broken: asking(func(c *process, q *node.Request) { q.TTL = c.ttl + c.wall - 1000*time.Hour })},
	{name: "a context outlives the lease by the interval of extensions", seen: "rueidislock", checks: is("tenure"),
		seeds: 20, broken: breaking(func(l *lock, b *broken) {
			b.tick = func(now time.Duration) { b.Attempt.Tick(now - b.p.TTL/3) }
			b.extends(func(now time.Duration, extend func(time.Duration) core.Action) core.Action {
				if now >= b.Until() {
					return core.Action{}
				}
				return extend(now)
			})
		})},
	{name: "a lock that has run out goes on", checks: is("validity", "extension", "tenure"), seeds: 20,
		broken: breaking(func(l *lock, b *broken) {
			// For a quarter of the TTL, since it has to end at some time.
			still := func(now time.Duration) time.Duration {
				if until := b.Until(); now < until+b.p.TTL/4 && b.Phase() == core.Holding {
					return min(now, until-1)
				}
				return now
			}
			b.tick = func(now time.Duration) { b.Attempt.Tick(still(now)) }
			b.extends(func(now time.Duration, extend func(time.Duration) core.Action) core.Action { return extend(still(now)) })
			b.answers(core.Extend, func(x answer) core.Action {
				x.now = still(x.now)
				return b.honest(x)
			})
		}), where: pauses},
	{name: "the maximum hold is ignored", checks: is("tenure"), seeds: 40, broken: func(r *rules) {
		r.params = func(p *core.Params) { p.MaxHold = 0 }
	}},
}

var extensionMutants = []mutant{
	{name: "unknown counts as an extension", checks: is("validity", "extension"), seeds: 300,
		broken: unknownIs(core.Granted, core.Extend)},
	{name: "every acceptance of an extension counts", checks: is("extension"), seeds: 2000,
		broken: mishearing(everyAcceptance), where: returns},
	{name: "the mark is never raised", checks: is("healing"), seeds: 100, broken: breaking(func(l *lock, b *broken) {
		b.answers(core.Extend, func(x answer) core.Action {
			if action := b.honest(x); action.Op != core.Extend {
				return action
			}
			return core.Action{}
		})
	}), where: oneByOne},
	{name: "a node that lost a lease does not get it again", checks: is("healing"), seeds: 20,
		broken: serving(node.Extend, func(s *served) {
			if !s.Out && !s.Leased(s.now) {
				s.Holder, s.Expires = "somebody", s.now+1
			}
		}, func(s *served) { s.Holder = s.was.Holder }), where: oneByOne},
	{name: "one node that does not answer loses the lock", seen: "redsync #186", checks: is("tenure"), seeds: 20,
		broken: losesIf(func(b *broken, s core.Status) bool { return s == core.Unknown })},
	{name: "an extension that misses drops the quorum that is held", seen: "redsync #151", checks: is("tenure"), seeds: 20,
		broken: losesIf(func(b *broken, _ core.Status) bool {
			_, state := b.Extension()
			return state == core.Missed
		})},
	{name: "a renewal dies silently", seen: "redisson #5698", checks: is("tenure"), seeds: 20,
		broken: breaking(func(l *lock, b *broken) {
			dead := false
			b.answers(core.Extend, func(x answer) core.Action {
				dead = dead || x.Status == core.Unknown
				if dead && b.Phase() == core.Holding {
					return core.Action{}
				}
				return b.honest(x)
			})
			b.tick = func(now time.Duration) {
				if !dead {
					b.Attempt.Tick(now)
				}
			}
			b.extends(func(now time.Duration, extend func(time.Duration) core.Action) core.Action {
				if dead {
					return core.Action{}
				}
				return extend(now)
			})
		})},
	{name: "a renewal goes on after the release", seen: "redisson #7272", checks: is("left over", "progress"), seeds: 20,
		broken: requesting(func(c *process, to int, q node.Request, done func(node.Answer)) {
			c.request(to, q, done)
			if q.Op != core.Release || q.Holder == "" {
				return
			}
			q.Op, q.TTL, q.Token = core.Extend, c.ttl, 0
			var again func()
			again = func() {
				c.request(to, q, func(node.Answer) {})
				c.after(c.ttl/3, again)
			}
			c.after(c.ttl/3, again)
		}), where: idle},
}

// everyAcceptance has each acceptance of an extension count.
func everyAcceptance(b *broken, x *answer) {
	if x.of == core.Extend {
		x.Register = min(x.Register, b.Token())
	}
}

// unknownIs has attempts hear another status in the place of unknown.
func unknownIs(status core.Status, of ...core.Op) func(r *rules) {
	return mishearing(func(b *broken, x *answer) {
		if x.Status == core.Unknown && slices.Contains(of, x.of) && !x.late {
			x.Reply = core.Reply{Status: status, Register: max(b.Token(), 1)}
		}
	})
}

// startLater starts the validity later by so many drifts.
func startLater(drifts time.Duration) func(r *rules) {
	return func(r *rules) {
		r.params = func(p *core.Params) { p.Start += drifts * rule.Drift(p.TTL) }
	}
}

// fromTheReply starts an attempt anew with every reply, as if it began only now;
// or with the confirm, as if that were a new attempt.
func fromTheReply(confirmOnly bool) func(l *lock, b *broken) {
	return func(l *lock, b *broken) {
		b.answers(core.Acquire, func(x answer) core.Action {
			before := b.Phase()
			action := b.honest(x)
			if before != core.Acquiring || confirmOnly && action.Op != core.Confirm {
				return action
			}
			p := core.Params{Nodes: b.p.Nodes, TTL: b.p.TTL, Start: x.now}
			if b.p.MaxHold > 0 {
				p.MaxHold = b.p.Start + b.p.MaxHold - x.now
			}
			late, _ := core.NewAttempt(p)
			for _, h := range b.heard {
				action = late.OnAcquire(h.node, h.Reply, x.now)
			}
			b.become(late)
			return action
		})
	}
}

// extendedFromTheReply starts an extension anew with every reply.
func extendedFromTheReply(l *lock, b *broken) {
	var before core.Attempt
	var all []answer
	b.startExtend = func(now time.Duration) core.Action {
		before, all = b.copied(), nil
		return b.Attempt.StartExtend(now)
	}
	b.renew = b.startExtend
	b.answers(core.Extend, func(x answer) core.Action {
		latest, state := b.Extension()
		b.Attempt.Tick(x.now)
		if state != core.Pending || x.round != latest || b.Phase() != core.Holding {
			return b.honest(x)
		}
		all = append(all, x)
		again := before
		again.StartExtend(x.now)
		var action core.Action
		for _, h := range all {
			action = again.OnExtend(h.node, x.round, 0, h.Reply, x.now)
		}
		b.become(again)
		return action
	})
}

// longExtensions wait for their answers for longer.
var longExtensions = limiting(func(c *process) time.Duration { return c.ttl }, core.Extend)

// losesIf ends the lock when an answer to an extension is such.
func losesIf(lost func(b *broken, s core.Status) bool) func(r *rules) {
	return breaking(func(l *lock, b *broken) {
		b.answers(core.Extend, func(x answer) core.Action {
			action := b.honest(x)
			if b.Phase() == core.Holding && lost(b, x.Status) {
				round, _ := b.Extension()
				for i := range b.p.Nodes {
					b.Attempt.OnExtend(i, round, 0, core.Reply{Status: core.Lost}, x.now)
				}
			}
			return action
		})
	})
}

// quorumOf counts votes with a quorum of its own: what is missing to the real
// one is made up.
func quorumOf(quorum func(n int) int) func(r *rules) {
	return breaking(func(l *lock, b *broken) {
		var confirmed core.Set
		var asked fence.Token
		b.answers(core.Acquire, func(x answer) core.Action {
			action := b.honest(x)
			if b.granted.Len() < quorum(b.p.Nodes) {
				return action
			}
			return b.acquires(action, ^core.Set(0), core.Reply{Status: core.Granted, Register: x.Register}, x.now)
		})
		b.answers(core.Confirm, func(x answer) core.Action {
			action := b.honest(x)
			if asked != x.asked {
				asked, confirmed = x.asked, 0
			}
			if x.Status == core.Granted {
				confirmed = confirmed.With(x.node)
			}
			if confirmed.Len() >= quorum(b.p.Nodes) {
				b.confirms(asked, x.now)
			}
			return action
		})
	})
}

// connectedOnly counts a quorum of those nodes that answer.
func connectedOnly(_ *lock, b *broken) {
	b.answers(core.Acquire, func(x answer) (action core.Action) {
		acquiring := b.Phase() == core.Acquiring
		if !acquiring || x.Status != core.Unknown {
			action = b.honest(x)
		}
		if !acquiring || len(b.heard) < b.p.Nodes {
			return action
		}
		var silent core.Set
		var largest fence.Token
		for _, h := range b.heard {
			switch h.Status {
			case core.Unknown:
				silent = silent.With(h.node)
			case core.Granted:
				largest = max(largest, h.Register)
			}
		}
		made := core.Reply{}
		if b.granted.Len() >= core.Quorum(b.p.Nodes-silent.Len()) {
			made = core.Reply{Status: core.Granted, Register: largest}
		}
		return b.acquires(action, silent, made, x.now)
	})
}

// What the side of the client can do wrongly when it cleans up and when it sends:
// leases, timers and requests that are forgotten.

var cleanupMutants = []mutant{
	{name: "an attempt that is cancelled releases nothing", seen: "open-match #1578, redsync", checks: is("left over"),
		seeds: 30, broken: breaking(func(l *lock, b *broken) {
			b.cancel = func() core.Action {
				b.Attempt.Cancel()
				return core.Action{}
			}
		}), where: calm},
	{name: "a failure releases while an acquire is under way, and forgets it", seen: "redsync", checks: is("left over"),
		seeds: 10, broken: breaking(func(l *lock, b *broken) {
			b.answers(core.Acquire, func(x answer) core.Action {
				over := b.Phase() == core.Over
				action := b.honest(x)
				switch {
				case over:
					return core.Action{}
				case action.Op == core.Release:
					action.To = 1<<b.p.Nodes - 1
				}
				return action
			})
		}), where: calm},
	{name: "a late grant is not released", checks: is("left over"), seeds: 10, broken: breaking(func(l *lock, b *broken) {
		b.answers(core.Acquire, func(x answer) core.Action {
			over := b.Phase() == core.Over
			if action := b.honest(x); !over {
				return action
			}
			return core.Action{}
		})
	}), where: calm},
	{name: "an acquire whose time was up counts as refused, and is not released", seen: "node-redlock #369",
		checks: is("left over"), seeds: 100, broken: all(hasty, unknownIs(core.Held, core.Acquire)), where: calm},
	{name: "a release goes only to the nodes that have granted", checks: is("left over"), seeds: 10,
		broken: breaking(func(l *lock, b *broken) {
			b.startRelease = func(now time.Duration) core.Action {
				action := b.Attempt.StartRelease(now)
				action.To &= b.granted
				return action
			}
		}), where: calm},
	{name: "a process that got the lock forgets its release", checks: is("left over", "progress"), seeds: 20,
		broken: breaking(func(l *lock, b *broken) {
			b.startRelease = func(now time.Duration) core.Action {
				b.Attempt.StartRelease(now)
				return core.Action{}
			}
		})},
	{name: "an acquire has no time limit at the node", checks: is("progress", "left over"), seeds: 20,
		broken: limiting(endlessly, core.Acquire, core.Confirm)},
	{name: "an extension or a release has no time limit at the node", seen: "redsync", checks: is("progress", "left over"),
		seeds: 20, broken: limiting(endlessly, core.Extend, core.Release)},
	{name: "a retry applies an acquire twice, and what it hears is that somebody else has it",
		seen: "go-redis, redisson #7367", checks: is("left over", "progress"), seeds: 10,
		broken: requesting(func(c *process, to int, q node.Request, done func(node.Answer)) {
			c.request(to, q, done)
			if q.Op == core.Acquire {
				c.after(c.nodeTimeout/4, func() { c.request(to, q, done) })
			}
		}), where: calm},
	{name: "the timer of a lock goes on after its end", seen: "redlock-go #5", checks: is("left over"), seeds: 4,
		broken: breaking(func(l *lock, b *broken) {
			b.startRelease = func(now time.Duration) core.Action {
				var again func()
				again = func() { l.c.after(b.p.TTL/4, again) }
				again()
				return b.Attempt.StartRelease(now)
			}
		}), where: idle},
}

// endlessly is a time limit that is none, hasty clients have the shortest one.
func endlessly(*process) time.Duration { return 2 * patience }

var hasty = limiting(func(*process) time.Duration { return 25 * time.Millisecond })
