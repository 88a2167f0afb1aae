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

var handoverMutants = []mutant{
	{name: "who adopts a lock holds it at once, for as long as the exporter", checks: is("validity", "extension", "tokens"), seeds: 100, broken: func(r *rules) {
		r.adoption = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt {
			for i := range p.Nodes {
				honest.OnExtend(i, 1, 0, core.Reply{Status: core.Granted}, p.Start)
			}
			return honest
		}
	}, where: handing},
	{name: "who adopts a lock counts every acceptance", checks: is("validity", "extension", "tokens"), seeds: 400, broken: func(r *rules) {
		r.adoption = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt {
			b := &broken{Attempt: honest, p: p, onAcquire: honest.OnAcquire, onConfirm: honest.OnConfirm, tick: honest.Tick,
				startExtend: honest.StartExtend, startRelease: honest.StartRelease, cancel: honest.Cancel}
			b.onExtend = func(node int, round uint32, asked fence.Token, reply core.Reply, now time.Duration) core.Action {
				reply.Register = min(reply.Register, b.Token())
				return honest.OnExtend(node, round, asked, reply, now)
			}
			return b
		}
	}, where: handingSteps},
	{name: "who has exported a lock goes on extending it", checks: is("validity"), seeds: 40, broken: func(r *rules) {
		r.attempt = func(l *lock, honest shell.Attempt, p core.Params) shell.Attempt { return goesOn{honest} }
	}, where: handing},
}

// goesOn is an attempt that does not end when it is exported.
type goesOn struct{ shell.Attempt }

func (goesOn) Export(fence.Token, time.Duration) bool { return true }
