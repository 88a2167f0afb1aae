package sim

import (
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

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
