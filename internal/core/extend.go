package core

import "time"

// RoundState is how an extension stands.
type RoundState uint8

const (
	Pending RoundState = iota // replies are still to come
	Carried                   // a majority extended: the validity is longer now
	Missed                    // no majority; the old validity still stands
)

// ExtendDue returns when the next extension should start: from a third of the
// TTL on. After a round that missed it is soon, after one that is still open it
// is late enough to give that one up. False means never: the tenure is over, or
// its validity reaches to the maximum hold already.
func (a *Attempt) ExtendDue() (time.Duration, bool) {
	if a.phase != Holding {
		return 0, false
	}
	if limit, bounded := a.limit(); bounded && a.until >= limit {
		return 0, false
	}
	return a.due, true
}

// StartExtend begins an extension and forgets the one before. It returns the
// zero Action when the lock is not held (any more).
func (a *Attempt) StartExtend(now time.Duration) Action {
	a.Tick(now)
	if a.phase != Holding {
		return Action{}
	}
	a.round++
	a.roundStart, a.votes, a.extended = now, ballot{}, false
	a.due = now + a.params.TTL/4
	return Action{Op: Extend, To: allOf(a.params.Nodes), Token: a.token, Round: a.round}
}

// Extension returns the number of the latest extension and how it stands.
func (a *Attempt) Extension() (round uint32, state RoundState) {
	switch {
	case a.extended:
		return a.round, Carried
	case a.phase != Holding || a.hopeless(a.votes):
		return a.round, Missed
	}
	return a.round, Pending
}

// OnExtend takes a node's answer to the extend of a round.
//
// An acceptance counts only if it proves that nobody with a larger token was
// granted the name at that node: the register is not past the token, or the
// node is sound, so that the lease has been the holder's ever since the
// register was not. "Leased to the holder" alone does not prove it: an acquire
// that was delayed can create the lease long after somebody else came and went.
// For the same reason an acceptance makes no node sound, not even when the
// acquire was answered too: replies overtake each other, so the acquire may
// have been executed after the extend.
func (a *Attempt) OnExtend(node int, round uint32, r Reply, now time.Duration) Action {
	a.Tick(now)
	if a.phase == Over {
		return a.releaseLate(node, r)
	}
	if a.phase != Holding || round != a.round {
		return Action{}
	}
	switch {
	case r.Status == Granted && r.Register <= a.token:
		a.votes.yes = a.votes.yes.With(node)
	case r.Status == Granted && (a.sound | a.leaseless).Has(node):
		a.votes.yes = a.votes.yes.With(node)
	case r.Status == Lost:
		a.votes.no = a.votes.no.With(node)
	default:
		a.votes.unknown = a.votes.unknown.With(node)
	}
	switch {
	case a.votes.yes.Len() >= a.quorum():
		if !a.extended {
			a.extended = true
			a.setUntil(Validity(a.roundStart, a.params.TTL))
			a.due = a.roundStart + a.params.TTL/3
		}
	case a.params.Nodes-a.votes.no.Len() < a.quorum():
		// Fewer nodes than a quorum can have the lease: it is not held any more,
		// and the sooner its holder knows, the better.
		a.phase, a.reason = Over, Taken
	case a.hopeless(a.votes):
		a.due = now + a.params.TTL/12
	}
	return Action{}
}
