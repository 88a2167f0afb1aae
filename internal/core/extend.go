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

// ExtendDue returns when the next extension should start: from a third of the TTL on. After a round
// that missed, or that found a node whose lease does not count, it is soon. After a round that is
// still open it is late enough to give that round up. False means never: the tenure is over, or its
// validity reaches to the maximum hold already.
func (a *Attempt) ExtendDue() (time.Duration, bool) {
	if a.phase != Holding {
		return 0, false
	}
	if limit, bounded := a.limit(); bounded && a.until >= limit && a.params.Every == 0 {
		return 0, false
	}
	return a.due, true
}

// StartExtend begins an extension that a caller asks for, at all nodes: what is under way proves
// nothing about what has happened since it began. It returns the zero Action when the lock is not
// held (any more).
func (a *Attempt) StartExtend(now time.Duration) Action {
	a.Tick(now)
	if a.phase != Holding {
		return Action{}
	}
	return a.begin(now, allOf(a.params.Nodes))
}

// Renew extends when ExtendDue says so. A round that was not carried, but that some nodes have
// accepted, goes on: it asks the others. Otherwise another one begins, whose validity is longer.
// Neither asks a node that has an extend to answer, unless its time is up (see Patience): so the
// Action can be zero.
func (a *Attempt) Renew(now time.Duration) Action {
	a.Tick(now)
	if a.phase != Holding {
		return Action{}
	}
	free := a.rounds.free(allOf(a.params.Nodes), now+a.every()/64) // a tick may be early
	if free == 0 || !a.extended && a.votes.yes != 0 && (a.rounds.shares || !a.rounds.willShare) {
		return a.goOn(now, free)
	}
	misses := a.rounds.misses
	if a.round > 0 && !a.extended {
		misses = min(misses+1, 2)
	}
	action := a.begin(now, free)
	a.rounds.misses = misses
	return action
}

// begin begins a round that asks some nodes. The others have not answered an earlier one.
func (a *Attempt) begin(now time.Duration, to Set) Action {
	a.round++
	a.roundStart, a.extended = now, false
	a.votes = ballot{unknown: allOf(a.params.Nodes) &^ to}
	a.highest = a.wanted
	if !a.raising(now) {
		a.floor = 0
	}
	a.rounds.begin(a.round, now)
	return a.ask(to, now)
}

// goOn asks the nodes once more that have not accepted the round that is under way. The round is as
// old as before, but what was accepted is not asked for again.
func (a *Attempt) goOn(now time.Duration, free Set) Action {
	to := free &^ a.votes.yes
	if to == 0 { // there is no node to be asked before one of them has answered, or its time is up
		a.due = max(a.rounds.next(allOf(a.params.Nodes), now+a.every()/4), now+a.every()/24)
		return Action{}
	}
	a.rounds.misses = min(a.rounds.misses+1, 2)
	a.votes.no &^= to
	a.votes.unknown &^= to
	return a.ask(to, now)
}

// ask sends an extend of this round to nodes.
func (a *Attempt) ask(to Set, now time.Duration) Action {
	a.due = now + a.every()/4
	// Towards the end of the validity, extends that are lost have to be noticed sooner.
	a.rounds.ask(to, now+max(min(Patience(a.every()), (a.until-now)/2), a.every()/24))
	a.await(to)
	return Action{Op: Extend, To: to, Floor: a.spent, Round: a.round, Shared: a.rounds.shares}
}

// await notes that an extend is under way to nodes.
func (a *Attempt) await(to Set) {
	a.waiting |= to
	a.rounds.await(to)
}

// missed has the round go on in a while. That is a little later each time, and not all at the same
// moment, but in time for what is left of the validity.
func (a *Attempt) missed(now time.Duration) {
	wait := a.every() / 12 << a.rounds.misses
	wait = max(min(wait, (a.until-now)/4), a.every()/16)
	a.due = min(a.due, now+a.rounds.jitter(wait, a.params.Start, a.round),
		max(now, a.rounds.next(allOf(a.params.Nodes)&^a.votes.yes, a.due)))
}

// accepted counts what a node has accepted: see rounds. It reports whether that makes the validity
// longer.
func (a *Attempt) accepted(node int, round uint32) (longer bool) {
	before := a.until
	if begun, ok := a.rounds.accepted(node, round, a.round, a.params.Nodes, a.quorum()); ok {
		a.setUntil(Validity(begun, a.params.TTL))
		if a.until > before {
			a.pace = 0
			a.due = max(a.due, begun+a.every()/3)
		}
	}
	return a.until > before
}

// Share has the next extensions let others share the name. The round that is under way goes on, and
// asks for no such thing. An acceptance of an extension that does says nothing of an earlier round.
// A holder that had the name alone then may have lost it to one that shares it since.
func (a *Attempt) Share() { a.rounds.willShare = true }

// Want has the extensions from now on raise the mark to a number at least, and be carried only
// then. Every token that is larger than this holder's is larger than that number, then. It is for a
// holder whose lock has a larger token elsewhere, on another group. It changes no round that is
// under way.
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
// that extend: 0 for the first, the action's Token for one that raises the mark. An answer
// that was given up, and taken for unknown and silent, may come once more, however late.
//
// An acceptance counts only if it proves that no client with a larger token was granted the name at
// that node since the acquisition. It does if the lease began with the register, its origin, not
// past the mark. "Leased to the holder" alone does not prove it. A delayed acquire or extend, and
// an extend of a node that lost the lease, create it long after another client came and went.
//
// One that comes late proves as much of its own round, and of the rounds before: see accepted. It
// proves nothing once the lock was released, and nothing of a round before others could share the
// name.
func (a *Attempt) OnExtend(node int, round uint32, asked fence.Token, r Reply, now time.Duration) Action {
	a.Tick(now)
	// and not answered yet, by the end of its time neither
	first := a.rounds.heard(node, round == a.round, r) && a.waiting.Has(node)
	if first {
		a.waiting = a.waiting.Without(node)
	}
	if r.Status == Granted && a.spent > 0 && (first || !a.releasing || a.params.Ordered.Has(node)) {
		a.spentAt = a.spentAt.With(node) // otherwise a release may have come there before
	}
	switch {
	case a.keeping:
		return a.keep(node, first && round == a.round, r)
	case first && a.releasing && !a.params.Ordered.Has(node): // StartRelease has left it out
		if r.Status != Lost {
			return Action{Op: Release, To: Set(0).With(node)}
		}
		a.votes.yes = a.votes.yes.With(node) // there is nothing to release
		return Action{}
	case a.phase == Over && !first && r.Status != Granted:
		return Action{} // it was taken for unknown before
	case a.phase == Over:
		return a.releaseLate(node, r)
	case a.phase == Adopting:
		return a.onAdopt(node, r, now)
	}
	switch {
	case a.phase != Holding:
		return Action{}
	case asked != 0:
		return a.onRaised(node, round, asked, r, now)
	case round != a.round:
		if a.Accepts(r) {
			return a.onLate(node, a.accepted(node, round), now)
		}
		return Action{}
	}
	counts := a.count(node, r)
	if counts {
		a.accepted(node, round)
	}
	switch {
	case a.votes.yes.Len() >= a.quorum():
		a.carried(now)
	case a.params.Nodes-a.votes.no.Len() < a.quorum():
		return a.taken()
	case a.hopeless(a.votes):
		a.missed(now)
	}
	switch {
	case counts && a.raising(now): // the others may be too few: an answer can be lost
		return a.raiseAt(Set(0).With(node) &^ a.raised)
	case a.extended:
		return a.raise(a.votes.yes, now)
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

// count sorts an answer to an extend of this round, and reports whether it is one that counts and
// is new. Of what a node has answered, an acceptance stays; otherwise the latest answer is its
// vote.
func (a *Attempt) count(node int, r Reply) bool {
	if a.votes.yes.Has(node) {
		return false
	}
	if r.Status != Unknown {
		a.votes.unknown = a.votes.unknown.Without(node)
		a.votes.no = a.votes.no.Without(node)
	}
	switch {
	case a.Accepts(r):
		a.votes.yes = a.votes.yes.With(node)
		return true
	case r.Status == Granted:
		a.votes.no = a.votes.no.With(node)
		a.highest = max(a.highest, r.Register)
	case r.Status == Lost:
		a.votes.no = a.votes.no.With(node)
	case !a.votes.no.Has(node):
		a.votes.unknown = a.votes.unknown.With(node)
	}
	return false
}

// carried is called with each answer once a majority's count.
func (a *Attempt) carried(now time.Duration) {
	if !a.extended {
		a.extended, a.pace, a.rounds.misses = true, 0, 0
		a.setUntil(Validity(a.roundStart, a.params.TTL))
		a.due = a.roundStart + a.every()/3
	}
	if a.votes.no != 0 {
		a.hurry(now)
	}
}

// taken ends a tenure of which fewer nodes than a quorum have a lease that counts, or ever will. It
// is not held any more, and the sooner its holder knows, the better. What it has taken by asking
// must not keep others from it.
func (a *Attempt) taken() Action { return a.end(Taken) }

// end ends a tenure for good: no process is to go on with it.
func (a *Attempt) end(why Reason) Action {
	a.phase, a.reason, a.abandoned = Over, why, true
	a.freeing = allOf(a.params.Nodes)
	return Action{Op: Release, To: a.freeing}
}

// keep counts the nodes that keep the lease of a holder that has let go. A lease that began past
// the mark does not count, as in OnExtend: the extend has made it anew, and it is released there.
// If so many nodes have lost the lease that the others are no majority, the lock was lost, and
// nothing is left of it.
func (a *Attempt) keep(node int, first bool, r Reply) Action {
	switch {
	case a.abandoned: // it was lost before
		return a.releaseLate(node, r)
	case first:
		a.count(node, r)
	}
	switch {
	case a.reason == LetGo && a.params.Nodes-a.votes.no.Len() < a.quorum():
		a.keeping, a.reason = false, Taken
		return a.release()
	case r.Status == Granted && !a.Accepts(r):
		return Action{Op: Release, To: Set(0).With(node)}
	}
	return Action{}
}

// Accepts reports whether a node's answer to an extend counts: see OnExtend.
func (a *Attempt) Accepts(r Reply) bool { return r.Status == Granted && r.Register <= a.mark }

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
	return Action{Op: Extend, To: nodes, Token: a.floor, Round: a.round, Shared: a.rounds.shares}
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
