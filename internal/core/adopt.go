package core

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// A lock that is held goes from one process to another, on purpose: the one exports it, the other
// adopts it. The leases stay where they are, with their holder, so that no other client gets in
// between.
//
// What is handed over is the mark as it was before the exporter's last extension, which raised the
// registers of a majority past it (OfferExport). So a lease that has gone since, at one of these
// nodes, and that an extend creates again, begins past that mark. It does not count. To be adopted,
// a lock needs a majority whose leases count, of which one at least has had its lease all the time.
// What has expired or was released does not come to life again.

// OfferExport has the extensions from now on raise the mark. It returns the mark that is to be
// handed over when such an extension was carried.
func (a *Attempt) OfferExport() (mark fence.Token) {
	mark = a.mark
	a.Want(mark + 1)
	return mark
}

// Export ends the tenure without a release: the process that adopts the lock with its token and
// this mark goes on. It reports whether it does so: not if the lock is not held (any more), or if
// the mark was not raised past this one. Nothing is sent from now on. What is still under way is
// the holder's, whichever process that is by now: an extend that comes late renews its lease once
// more.
func (a *Attempt) Export(mark fence.Token, now time.Duration) bool {
	a.Tick(now)
	if a.phase != Holding || a.mark <= mark {
		return false
	}
	a.phase, a.reason = Over, Exported
	return true
}

// NewAdoption starts the attempt of a process that goes on with a lock which another one has
// exported. It has the lock's token, and the mark that went with it. The Action is an extension,
// its only one while it is Adopting: nothing is held, and nothing raised, before a majority's
// answers to that count. The validity is counted from this process's own Start: when the other
// process's ended is not asked. What the extension proves does not rest on that, see OnExtend.
// MaxHold is what was left of it.
//
// Its extends carry a floor, one past the mark. A lease that is created at such a node later begins
// past that mark. A release waits until a majority of these nodes is free of the lease. After that,
// no process adopts the lock by the same text again: any other majority has one of them.
func NewAdoption(p Params, token, mark fence.Token) (Attempt, Action) {
	a := Attempt{params: p, phase: Adopting, token: token, mark: mark, spent: mark + 1,
		until: p.Start}
	a.rounds.shares = p.Shared
	return a, a.begin(p.Start, allOf(p.Nodes))
}

// onAdopt takes an answer to the extension that decides.
func (a *Attempt) onAdopt(node int, r Reply, now time.Duration) Action {
	a.count(node, r)
	limit, bounded := a.limit()
	switch {
	case a.params.Nodes-a.votes.no.Len() < a.quorum():
		return a.taken()
	case now >= Validity(a.params.Start, a.params.TTL):
		return a.notAdopted(a.lateReason(ballot{yes: a.votes.yes}))
	case a.votes.yes.Len() >= a.quorum() && bounded && now >= limit:
		// Another try would renew the leases again, and have no more time.
		return a.end(HeldTooLong)
	case a.votes.yes.Len() >= a.quorum():
		a.phase = Holding
		a.carried(now)
		return a.raise(a.votes.yes, now)
	case a.hopeless(a.votes):
		return a.notAdopted(NoQuorum)
	}
	return Action{}
}

// notAdopted ends an attempt that does not know whether the lock is still there. It leaves what is,
// for another try.
func (a *Attempt) notAdopted(why Reason) Action {
	a.phase, a.reason = Over, why
	return Action{}
}
