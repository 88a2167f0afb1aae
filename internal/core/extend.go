package core

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// RoundState is how an extension stands.
type RoundState uint8

const (
	Pending RoundState = iota // replies are still to come
	Carried                   // a majority extended: the validity is longer now, and the mark is what Want says
	Missed                    // no majority; the old validity still stands
)

// ExtendDue returns when the next extension should start: from a third of the
// TTL on. After a round that missed, or that found a node whose lease does not count, it
// is soon, after one that is still open it is late enough to give that one up. False
// means never: the tenure is over, or its validity reaches to the maximum hold already.
func (a *Attempt) ExtendDue() (time.Duration, bool) {
	if a.phase != Holding {
		return 0, false
	}
	if limit, bounded := a.limit(); bounded && a.until >= limit && a.params.Every == 0 {
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
	a.highest, a.floor, a.raised, a.waiting = a.wanted, 0, 0, allOf(a.params.Nodes)
	a.due = now + a.every()/4
	return Action{Op: Extend, To: allOf(a.params.Nodes), Floor: a.spent, Round: a.round}
}

// Want has the extensions from now on raise the mark to a number at least, and be carried only
// then: whoever has a larger token than this holder's has one that is larger than that number,
// then. It is for a holder whose lock has a larger token elsewhere, on another group. It
// changes no round that is under way.
func (a *Attempt) Want(mark fence.Token) { a.wanted = max(a.wanted, mark) }

// Extension returns the number of the latest extension and how it stands.
func (a *Attempt) Extension() (round uint32, state RoundState) {
	switch {
	case a.extended && a.mark >= a.wanted:
		return a.round, Carried
	case a.phase != Holding || a.hopeless(a.votes):
		return a.round, Missed
	}
	return a.round, Pending
}

// Counts reports whether the node's answer counts for the latest extension.
func (a *Attempt) Counts(node int) bool { return a.votes.yes.Has(node) }

// OnExtend takes a node's answer to an extend of a round. Asked is the floor of
// that extend: 0 for the first, the action's Token for one that raises the mark.
//
// An acceptance counts only if it proves that nobody with a larger token was
// granted the name at that node since the lock was acquired: if the lease began
// with the register, its origin, not past the mark. "Leased to the holder" alone
// does not prove it: an acquire or an extend that was delayed, and an extend of a
// node that lost the lease, create it long after somebody else came and went.
func (a *Attempt) OnExtend(node int, round uint32, asked fence.Token, r Reply, now time.Duration) Action {
	a.Tick(now)
	first := round == a.round && a.waiting.Has(node)
	if first {
		a.waiting &^= Set(0).With(node)
	}
	if r.Status == Granted && a.spent > 0 {
		a.spentAt = a.spentAt.With(node)
	}
	switch {
	case a.keeping:
		return a.keep(node, first, r)
	case first && a.releasing && !a.params.Ordered.Has(node): // StartRelease has left it out
		if r.Status != Lost {
			return Action{Op: Release, To: Set(0).With(node)}
		}
		a.votes.yes = a.votes.yes.With(node) // there is nothing to release
		return Action{}
	case a.phase == Over:
		return a.releaseLate(node, r)
	case a.phase == Adopting:
		return a.onAdopt(node, r, now)
	}
	if a.phase != Holding || round != a.round {
		return Action{}
	}
	if asked != 0 {
		if a.onRaise(node, asked, r) {
			a.hurry(now)
			return a.raise(now) // what was heard of meanwhile
		}
		if a.floor > a.mark && (a.raised|a.waiting&a.votes.yes).Len() < a.quorum() {
			a.due = min(a.due, now+a.every()/12) // too few are left to agree
		}
		return Action{}
	}
	if a.count(node, r) && a.floor > a.mark {
		return a.raiseAt(Set(0).With(node)) // the others may be too few: an answer can be lost
	}
	switch {
	case a.votes.yes.Len() >= a.quorum():
		return a.carried(now)
	case a.params.Nodes-a.votes.no.Len() < a.quorum():
		return a.taken()
	case a.hopeless(a.votes):
		a.due = now + a.every()/12
	}
	return Action{}
}

// every returns what the pace of extensions is a part of: for how long the leases are made, unless
// the parameters say something else.
func (a *Attempt) every() time.Duration {
	if a.pace > 0 {
		return a.pace
	}
	return a.params.every()
}

// count sorts an answer to an extend, and reports whether it counts.
func (a *Attempt) count(node int, r Reply) bool {
	switch {
	case a.Accepts(r):
		a.votes.yes = a.votes.yes.With(node)
		return true
	case r.Status == Granted:
		a.votes.no = a.votes.no.With(node)
		a.highest = max(a.highest, r.Register)
	case r.Status == Lost:
		a.votes.no = a.votes.no.With(node)
	default:
		a.votes.unknown = a.votes.unknown.With(node)
	}
	return false
}

// carried is called with each answer once a majority's count.
func (a *Attempt) carried(now time.Duration) Action {
	if !a.extended {
		a.extended, a.pace = true, 0
		a.setUntil(Validity(a.roundStart, a.params.TTL))
		a.due = a.roundStart + a.every()/3
	}
	if a.votes.no != 0 {
		a.hurry(now)
	}
	return a.raise(now)
}

// taken ends a tenure of which fewer nodes than a quorum have a lease that counts, or ever
// will: it is not held any more, and the sooner its holder knows, the better. What it
// has taken by asking must not keep others from it.
func (a *Attempt) taken() Action { return a.end(Taken) }

// end ends a tenure for good: nobody is to go on with it.
func (a *Attempt) end(why Reason) Action {
	a.phase, a.reason, a.abandoned = Over, why, true
	return Action{Op: Release, To: allOf(a.params.Nodes)}
}

// keep counts the nodes that keep the lease of a holder that has let go. A lease that began past the mark
// does not count, as in OnExtend: the extend has made it anew, and it is released there. If so many nodes
// have lost the lease that the others are no majority, the lock was lost, and nothing is left of it.
func (a *Attempt) keep(node int, first bool, r Reply) Action {
	switch {
	case a.abandoned: // it was lost before
		return a.releaseLate(node, r)
	case !first:
		return Action{}
	}
	counts := a.count(node, r)
	switch {
	case a.reason == LetGo && a.params.Nodes-a.votes.no.Len() < a.quorum():
		a.keeping, a.reason = false, Taken
		return a.release()
	case r.Status == Granted && !counts:
		return Action{Op: Release, To: Set(0).With(node)}
	}
	return Action{}
}

// Accepts reports whether a node's answer to an extend counts: see OnExtend.
func (a *Attempt) Accepts(r Reply) bool { return r.Status == Granted && r.Register <= a.mark }

// hurry has the next round begin soon: there is a lease to be had again, or one that may
// count by now, and another node may go. A raise that is under way would be given up by
// it, where the nodes are far, in one round after the other.
func (a *Attempt) hurry(now time.Duration) {
	if a.floor <= a.mark {
		a.due = min(a.due, now+a.params.every()/12)
	}
}

// raise has the nodes whose leases count take the largest origin that does not as
// their register. With a quorum of them, it is the mark. If there are several such
// origins, and the largest is heard of last, they are raised to one after the other.
func (a *Attempt) raise(now time.Duration) Action {
	if a.highest <= a.mark || a.floor > a.mark {
		return Action{}
	}
	a.floor, a.raised = a.highest, 0
	a.due = now + a.params.every()/4
	return a.raiseAt(a.votes.yes)
}

// raiseAt asks nodes whose leases count to raise their registers.
func (a *Attempt) raiseAt(nodes Set) Action {
	a.waiting |= nodes
	return Action{Op: Extend, To: nodes, Token: a.floor, Round: a.round}
}

// onRaise takes a node's answer to an extend that raises the mark. It counts by
// the mark as it was, and in the round that asked: an answer of a lease that began
// since, or after the validity, could miss somebody with a number in between.
// It reports whether the mark is raised by it.
func (a *Attempt) onRaise(node int, asked fence.Token, r Reply) bool {
	if asked != a.floor || a.mark >= a.floor || !a.Accepts(r) {
		return false
	}
	if a.raised = a.raised.With(node); a.raised.Len() < a.quorum() {
		return false
	}
	a.mark = a.floor
	return true
}
