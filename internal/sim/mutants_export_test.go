package sim

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
)

// What can go wrong when a lock goes from one process to another.

func handing(p *profile) { p.hands = true }

// handingSteps is a world of leases that vanish on the way.
func handingSteps(p *profile) {
	steps(p)
	p.hands = true
}

// handingLosses is a world of messages that are lost while locks go from one process to another.
func handingLosses(p *profile) {
	p.hands, p.nodes, p.users, p.loss, p.tail, p.twice, p.breaks, p.idle = true, 3, 3, 150_000, 0, 0, 0, false
	p.only, p.hold, p.rest, p.trip, p.noQueues, p.starters, p.ordered = gaveUpTrying, 100*time.Millisecond,
		30*time.Millisecond, 300*time.Microsecond, 3, false, false
	p.pace = time.Second
}

var exportMutants = []mutant{
	{name: "who adopts a lock holds it at once, for as long as the exporter",
		checks: is("validity", "extension", "tokens"), seeds: 100, broken: func(r *rules) {
			r.adoption = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt {
				for i := range p.Nodes {
					honest.OnExtend(i, 1, 0, core.Reply{Status: core.Granted}, p.Start)
				}
				return honest
			}
		}, where: handing},
	{name: "who adopts a lock counts every acceptance", checks: is("validity", "extension", "tokens"), seeds: 400,
		broken: func(r *rules) {
			r.adoption = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt {
				b := newBroken(honest, p)
				b.on = func(x answer) core.Action {
					everyAcceptance(b, &x)
					return b.honest(x)
				}
				return b
			}
		}, where: handingSteps},
	{name: "any majority that is free of an adopted lock is enough for its release", checks: is("adopted twice"),
		seeds: 1000, broken: func(r *rules) {
			r.adoption = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt {
				return &anyFree{Attempt: honest, quorum: core.Quorum(p.Nodes)}
			}
		}, where: handingLosses},
	{name: "who has exported a lock goes on extending it", checks: is("validity"), seeds: 40, broken: func(r *rules) {
		r.attempt = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt { return goesOn{honest} }
	}, where: handing},
}

// anyFree is an adopter whose release does not ask whether the nodes keep the lock from being
// adopted again.
type anyFree struct {
	shell.Attempt
	free   core.Set
	quorum int
}

func (a *anyFree) OnRelease(node int, r core.Reply) {
	if a.Attempt.OnRelease(node, r); r.Status == core.Granted || r.Status == core.Lost {
		a.free = a.free.With(node)
	}
}

func (a *anyFree) ReleaseOutcome() (done, clean bool) {
	if a.free.Len() >= a.quorum {
		return true, true
	}
	return a.Attempt.ReleaseOutcome()
}

// goesOn is an attempt that does not end when it is exported.
type goesOn struct{ shell.Attempt }

func (goesOn) Export(fence.Token, time.Duration) bool { return true }
