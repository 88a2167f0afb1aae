package nodetest

import (
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// The one who was notified needs a round trip to come. If a newcomer could take the name meanwhile,
// the client that polls fastest would have it, and there were no queue.
func reservedNameRefusesOthers(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.releases(holder)
	q.refused(waiter{})
	q.refused(w2)
	q.refused(q.waiter(q.far, 5)) // also one who was earlier: w1 is on its way
	q.granted(w1)
	q.heard(w1)
	q.ahead(waiter{}, 2)
}

// What is reserved is no holder's lease yet. The previous holder may not know that it has lost the
// name, but can neither confirm nor release it. The waiter that was notified has to acquire.
func reservedNameIsNotTheOldHolders(q *queueSuite) {
	holder, w1, _ := q.contended()
	q.releases(holder)
	_, notified := q.request(w1)
	for _, r := range []node.Request{holder, with(holder, 1000), with(notified, 1000)} {
		r.Place = node.Place{}
		q.want(node.Lost)(q.node.Confirm(q.ctx, r))
		q.want(node.Lost)(q.node.Release(q.ctx, r))
	}
	q.reserved(7)
	q.granted(w1)
	q.heard(w1)
}

// A node that lost a lease reserves the name for one waiter after the other, although
// the lock is held. That does not keep the holder from creating its lease again.
func reservedNameGivesWayToAnExtension(q *queueSuite) {
	holder, w1, _ := q.contended()
	q.releases(holder, w1)
	q.register(q.want(node.Granted)(q.node.Extend(q.ctx, with(holder, 0))), 7)
	q.leased(q.name, "holder", true, 7)
	q.refused(w1)
	q.releases(holder, w1)
	q.granted(w1)
}

// The old holder may be wrong about its lease on this node only, and repair it
// elsewhere by its token. Only a grant may outrun that.
func reservingMovesNoRegister(q *queueSuite) {
	w1, w2 := q.waiter(q.near, 10), q.waiter(q.far, 20)
	holder := q.holds()
	q.queued(w1)
	q.releases(holder)
	q.reserved(7)
	q.refused(waiter{})
	q.refused(w2)
	q.reserved(7)
	if r := q.granted(w1); r.Token != 8 {
		q.fail("granted with register %d; want 8", r.Token)
	}
}

// An operator sees why a name is not to be had although no client has it.
func reservedNameShowsTheNextInQueue(q *queueSuite) {
	const label = node.NextInQueue
	holder := q.holds()
	q.queued(q.waiter(q.near, 10))
	q.releases(holder)
	if l := q.reservation(); l.Label != label {
		q.fail("inspect: %+v; want the label %q", l, label)
	}
	if !q.node.admin() {
		return
	}
	if l := q.list()[q.name]; l.Label != label || l.Remaining <= 0 || l.Remaining > rule.ReservationTTL {
		q.fail("listed: %+v; want the label %q, and at most %v", l, label, rule.ReservationTTL)
	}
	if a := q.refused(waiter{}); a.HeldBy != label || a.Remaining <= 0 || a.Remaining > rule.ReservationTTL {
		q.fail("refused: %+v; want held by %q, for at most %v", a, label, rule.ReservationTTL)
	}
}

// A waiter that is hung does not come. It costs those behind it one second, not a holder's TTL, and
// is out of the queue: it is not notified again.
func reservationEnds(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.releases(holder, w1)
	q.unreserved()
	q.free()
	q.heard() // the time is not watched, see ExpiryNotifiesNobody
	q.refused(waiter{})
	q.heard(w2)
	q.unreserved()
	// No waiter is left in the queue. One who comes too late finds no place, and needs none.
	q.granted(w1)
	q.ahead(waiter{}, 0)
	q.heard()
}

// A caller that has given up must not be notified: the name would be reserved in vain.
func leavingIsFinal(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.queued(q.waiter(q.near, 30))
	q.leaves(w1)
	q.leaves(w1)                   // again, or without ever having been in: no harm
	q.leaves(q.waiter(q.near, 15)) //
	q.ahead(w2, 0)
	q.ahead(waiter{}, 2)
	if l := q.inspect(q.node, q.name); l.Label != "holder" {
		q.fail("after others have left: %+v; want the holder's lease", l)
	}
	q.heard()
	q.releases(holder, w2)
}

// What was reserved for one that has given up goes to the next at once.
func leavingPassesOnWhatIsReserved(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.releases(holder, w1)
	q.leaves(w1)
	q.heard(w2)
	q.refused(waiter{})
	q.leaves(w2)
	q.free() // no waiter is next
	q.granted(waiter{})
	q.heard()
}

// An attempt fails if other nodes refused it. What it got here it gives back and
// waits on, where it was in the queue. Notifying the same waiter would make it try again
// what has just failed.
func failedAttemptIsQueuedAgain(q *queueSuite) {
	w1, w2, w3 := q.waiter(q.near, 10), q.waiter(q.far, 20), q.waiter(q.near, 30)
	r := q.granted(w1)
	q.queued(w2)
	r.Place = w1.Place
	q.releases(r)
	q.heard()
	q.free()
	q.refused(w2) // asks, and makes the node notify the one before it
	q.heard(w1)
	r = q.granted(w1)
	// One whose lease is not there, because its acquire never came, has a place too.
	via, lost := q.request(w3)
	q.want(node.Lost)(via.Release(q.ctx, lost))
	q.ahead(waiter{}, 2)
	q.ahead(w3, 1)
	q.releases(r, w2)
}

// The name goes to the waiter before the one that failed: on the other nodes that waiter has it, or
// is about to.
func failedAttemptNotifiesAnEarlierOne(q *queueSuite) {
	w1, w2, w3 := q.waiter(q.near, 10), q.waiter(q.far, 20), q.waiter(q.near, 30)
	r := q.granted(w2)
	q.queued(w1, w3)
	r.Place = w2.Place
	q.releases(r, w1)
	q.ahead(w3, 1) // after w2, which is back at its place
	q.releases(q.granted(w1), w2)
	q.releases(q.granted(w2), w3)
}

// A waiter can fail elsewhere before it has taken what is reserved for it here. Until
// its next attempt that would be reserved in vain.
func failedAttemptGivesUpWhatIsReserved(q *queueSuite) {
	w1, w2 := q.waiter(q.near, 10), q.waiter(q.far, 20)
	holder := q.holds()
	q.queued(w2)
	q.releases(holder, w2)
	q.refused(w1)
	via, r := q.request(w2)
	q.want(node.Lost)(via.Release(q.ctx, r))
	q.heard(w1)
	// And with no waiter before it: free, and the waiter is first in the queue.
	q.leaves(w1)
	q.heard(w2)
	q.want(node.Lost)(via.Release(q.ctx, r))
	q.heard()
	q.free()
	q.refused(waiter{})
	q.heard(w2)
}
