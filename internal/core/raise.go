package core

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// raise has nodes whose leases count take the largest origin that does not as their register. With
// a quorum of them, it is the mark. If there are several such origins, and the largest is heard of
// last, they are raised to one after the other.
//
// A raise goes on through the rounds that begin meanwhile, for as long as a lease lasts. So answers
// of a node that is behind, and always answers an earlier round, still count. A raise never ends
// before the validity by its round, even if now is before that round began. In one round, answers
// to two raises to the same number could not be told apart.
func (a *Attempt) raise(nodes Set, now time.Duration) Action {
	if a.highest <= a.mark || a.raising(now) {
		return Action{}
	}
	a.floor, a.raised, a.unagreed = a.highest, 0, 0
	a.raiseFrom, a.raiseEnd = a.round, Validity(max(now, a.roundStart), a.params.TTL)
	if a.extended {
		a.due = now + a.params.every()/4
	}
	return a.raiseAt(nodes)
}

// raising reports whether a raise is under way.
func (a *Attempt) raising(now time.Duration) bool { return a.floor > a.mark && now < a.raiseEnd }

// raiseAt asks nodes whose leases count to raise their registers.
func (a *Attempt) raiseAt(nodes Set) Action {
	if nodes == 0 {
		return Action{}
	}
	a.await(nodes) // if it is lost, the next round asks them all the same
	a.unagreed |= nodes
	return Action{Op: Extend, To: nodes, Token: a.floor, Round: a.round}
}

// onLate follows an acceptance of an earlier round. Its node is behind, and may never answer a
// round in time. So it is asked now, unless it has that to answer already.
func (a *Attempt) onLate(node int, longer bool, now time.Duration) Action {
	switch {
	case a.raising(now):
		return a.raiseAt(Set(0).With(node) &^ (a.raised | a.unagreed))
	case longer:
		return a.raise(a.votes.yes.With(node), now)
	}
	return Action{}
}

// onRaised takes a node's answer to an extend of a round that raises the mark.
func (a *Attempt) onRaised(node int, round uint32, asked fence.Token, r Reply, now time.Duration) Action {
	if !r.Silent {
		a.unagreed = a.unagreed.Without(node)
	}
	switch {
	case a.onRaise(node, round, asked, r, now):
		a.hurry(now)
		if a.extended {
			return a.raise(a.votes.yes, now) // what was heard of meanwhile
		}
		a.votes.no = 0 // leases that were past the mark may count now: their nodes are asked again
	case round == a.round && a.raising(now) && (a.raised|a.waiting&a.votes.yes).Len() < a.quorum():
		a.due = min(a.due, now+a.every()/12) // too few are left to agree in time
	}
	return Action{}
}

// onRaise takes a node's answer to an extend that raises the mark. It counts by the mark as it was,
// and only while the raise that asked is under way. An answer of a lease that began since could
// miss a client with a number in between. So could one of a node that has lost its memory since,
// and votes again: that takes longer than a raise. It reports whether the mark is raised by it.
func (a *Attempt) onRaise(node int, round uint32, asked fence.Token, r Reply, now time.Duration) bool {
	if asked != a.floor || round < a.raiseFrom || !a.raising(now) || !a.Accepts(r) {
		return false
	}
	if a.raised = a.raised.With(node); a.raised.Len() < a.quorum() {
		return false
	}
	a.mark = a.floor
	return true
}

// hurry has the next round begin soon. There is a lease to be had again, or one that may count by
// now, and another node may go. While a raise is under way that lease would not count yet.
func (a *Attempt) hurry(now time.Duration) {
	if !a.raising(now) {
		a.due = min(a.due, now+a.params.every()/12)
	}
}
