package sim

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
)

// What can go wrong with answers to extensions that come late.

// asLatest has a late answer to an extension count for the latest one, from its later start.
var asLatest = breaking(func(_ *lock, b *broken) {
	b.onExtend = func(node int, round uint32, asked fence.Token, r core.Reply, now time.Duration) core.Action {
		if latest, _ := b.Extension(); asked == 0 && round < latest && r.Status == core.Granted {
			round = latest
		}
		return b.Attempt.OnExtend(node, round, asked, r, now)
	}
})

// unshared is an attempt that does not hear that others may share the name.
type unshared struct{ shell.Attempt }

func (unshared) Share() {}

// tardy is a world of locks that are held for long, of answers that come late, and of clients that
// are cut off then.
func tardy(p *profile) {
	lateCuts(p)
	p.nodes, p.users, p.loss, p.hold, p.pace = 3, 2, 0, 20*time.Second, time.Second
}

// tardySharing is the same where names are shared.
func tardySharing(p *profile) {
	tardy(p)
	p.shares = true
}

// tardyAlone is the same as tardy with one node, where two believe at once as soon as one of them
// believes too long.
func tardyAlone(p *profile) {
	tardy(p)
	p.nodes = 1
}

var lateMutants = []mutant{
	{name: "a late answer to an extension counts from the start of the latest", checks: is("validity", "extension"),
		seeds: 1000, broken: asLatest, where: tardyAlone},
	{name: "an extension that is accepted after the release stays", checks: is("left over"), seeds: 200,
		broken: breaking(func(_ *lock, b *broken) {
			b.onExtend = func(node int, round uint32, asked fence.Token, r core.Reply, now time.Duration) core.Action {
				action := b.Attempt.OnExtend(node, round, asked, r, now)
				if action.Op == core.Release {
					return core.Action{}
				}
				return action
			}
		}), where: calm},
}

// lateStepMutants are found by the steps of the models.
var lateStepMutants = []mutant{
	{name: "a late answer to an extension counts for the latest", where: tardy, broken: asLatest},
	{name: "a late answer to an extension counts though others share the name by now", where: tardySharing,
		broken: func(r *rules) {
			r.attempt = func(_ *lock, honest shell.Attempt, _ core.Params) shell.Attempt { return unshared{honest} }
		}},
}
