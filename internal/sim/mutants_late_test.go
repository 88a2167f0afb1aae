package sim

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/shell"
)

// What can go wrong with answers to acquires and extensions that come late.

// revived has an attempt that found no quorum, and was released, wait for late grants all the same.
var revived = breaking(func(_ *lock, b *broken) {
	p := b.p
	p.Waits = true
	patient, _ := core.NewAttempt(p)
	b.answers(core.Acquire, func(x answer) core.Action {
		patient.OnAcquire(x.node, x.Reply, x.now)
		action := b.honest(x)
		if b.Reason() == core.NoQuorum && patient.Phase() == core.Acquiring {
			b.become(patient)
		}
		return action
	})
})

// fromTheLateGrant has an attempt begin when the late grant comes that makes it the lock.
var fromTheLateGrant = breaking(func(_ *lock, b *broken) {
	var late []answer
	b.on = func(x answer) core.Action {
		if !x.late {
			return b.honest(x)
		}
		late = append(late, x)
		acquiring := b.Phase() == core.Acquiring
		action := b.honest(x)
		if !acquiring || b.Phase() != core.Holding {
			return action
		}
		p := b.p
		p.Start = x.now
		again, _ := core.NewAttempt(p)
		for _, h := range slices.Concat(b.heard, late) {
			if !h.Silent && again.Phase() == core.Acquiring {
				again.OnAcquire(h.node, h.Reply, x.now)
			}
		}
		if again.Phase() == core.Holding {
			b.become(again)
		}
		return action
	}
})

// asLatest has a late answer to an extension count for the latest one, from its later start.
var asLatest = mishearing(func(b *broken, x *answer) {
	if latest, _ := b.Extension(); x.of == core.Extend && x.asked == 0 && x.round < latest && x.Status == core.Granted {
		x.round = latest
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

// tardyTrying is a world of one node that answers late, where locks are held for less than a TTL.
func tardyTrying(p *profile) {
	tardyAlone(p)
	p.hold = time.Second
}

var lateMutants = []mutant{
	{name: "a late grant revives an attempt that was released", checks: is("validity"), seeds: 200, broken: revived,
		where: tardyTrying},
	{name: "the validity counts from a late grant", checks: is("validity"), seeds: 1000, broken: fromTheLateGrant,
		where: tardyTrying},
	{name: "a late answer to an extension counts from the start of the latest", checks: is("validity", "extension"),
		seeds: 1000, broken: asLatest, where: tardyAlone},
	{name: "an extension that is accepted after the release stays", checks: is("left over"), seeds: 800,
		broken: breaking(func(_ *lock, b *broken) {
			b.answers(core.Extend, func(x answer) core.Action {
				action := b.honest(x)
				if action.Op == core.Release {
					return core.Action{}
				}
				return action
			})
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
