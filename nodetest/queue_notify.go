package nodetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// The first to ask after the end of a lease may be any client. The first in the queue has waited
// longest, whether it is the one who asks or not.
func freeNameGoesToTheFirst(q *queueSuite) {
	for i, asker := range []waiter{{}, q.waiter(q.near, 20), q.waiter(q.far, 30)} {
		q.name = fmt.Sprint(q.name, " ", i)
		w1, w2 := q.waiter(q.far, 10), q.waiter(q.near, 15)
		holder := q.holdsAny()
		q.queued(w1, w2)
		q.lapses(holder)
		q.refused(asker)
		q.heard(w1)
		q.granted(w1)
		q.ahead(asker, 1)
		if asker.Waiter != "" { // it is in the queue
			q.ahead(waiter{}, 2)
		}
	}
}

// The first in the queue that asks needs no notification. It must be out of the queue
// then, or it would be notified when it has what it wanted.
func firstIsGrantedAndLeaves(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.lapses(holder)
	q.granted(w1)
	q.heard()
	q.ahead(w2, 0)
	q.ahead(waiter{}, 1)

	// Also one that is first by its stamp, and was not in the queue.
	q.name += " again"
	holder = q.holdsAny()
	q.queued(w2)
	q.lapses(holder)
	r := q.granted(q.waiter(q.near, 15))
	q.heard()
	q.releases(r, w2)
}

// No node needs to watch the time: waiters know when a lease ends, and ask. A node that notified by
// itself, or for an operation that frees nothing, would reserve a name for no waiter.
func expiryNotifiesNobody(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.lapses(holder)
	q.want(node.Lost)(q.node.Release(q.ctx, holder))
	q.want(node.Lost)(q.node.Confirm(q.ctx, holder))
	q.list()
	q.free()
	q.heard()
	q.refused(w2)
	q.heard(w1)
}

// The next waiter learns at once that the name is free, and no other does. With a hundred waiters,
// a hundred requests for each release would be the load.
func releaseNotifiesTheFirst(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.queued(q.waiter(q.near, 30))
	q.want(node.Lost)(q.other.Release(q.ctx, request(q.name, "not the holder", 0)))
	q.heard()
	q.releases(holder, w1)
	q.want(node.Lost)(q.other.Release(q.ctx, holder))
	q.heard()
	r := q.granted(w1)
	q.releases(r, w2) // through the other client
}

// An operator's release ends a lease like any other.
func forceReleaseNotifiesTheFirst(q *queueSuite) {
	if !q.node.admin() {
		return
	}
	_, w1, w2 := q.contended()
	a := q.want(node.Granted)(q.other.ForceRelease(q.ctx, q.name, 0))
	q.heard(w1)
	q.reserved(a.Register)
	// And it does not leave what is reserved.
	q.want(node.Granted)(q.other.ForceRelease(q.ctx, q.name, 0))
	q.heard(w2)
	q.granted(w2)
}

// A waiter that is refused while the release is under way is either before it,
// and notified, or after it, and granted. Two steps on the node would let it sleep.
func refusedIsNotified(q *queueSuite) {
	first := q.name
	for round := range 25 {
		q.name = fmt.Sprint(first, " ", round)
		holder, w := q.holdsAny(), q.waiter([]*listener{q.near, q.far}[round%2], 10)
		via, r := q.request(w)
		var asked, released node.Answer
		var errs [2]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		wg.Go(func() { <-start; asked, errs[0] = via.Acquire(q.ctx, r) })
		wg.Go(func() { <-start; released, errs[1] = q.other.Release(q.ctx, holder) })
		close(start)
		wg.Wait()
		q.want(node.Granted)(released, errs[1])
		if errs[0] == nil && asked.Status == node.Granted {
			q.heard()
			continue
		}
		q.want(node.Held)(asked, errs[0])
		q.heard(w)
	}
}

// A process that has ended must not cost those behind it a second each. A store
// may need a moment to see that a client has gone; then it skips at once.
func closedListenerIsSkipped(q *queueSuite) {
	if err := q.other.Close(); err != nil {
		q.Errorf("close: %v", err)
	}
	if err := q.other.Listen(q.ctx, q.far.client, func(string) {}); err == nil {
		q.Error("listen after Close: no error")
	}
	first := q.name
	var next waiter
	for deadline, round := time.Now().Add(q.patience), 0; ; round++ {
		q.name = fmt.Sprint(first, " ", round)
		holder, gone := q.holdsAny(), q.waiter(q.far, 10)
		gone.via, next = q.node, q.waiter(q.near, 20)
		q.queued(gone, next)
		q.releases(holder)
		via, r := q.request(next)
		if a, err := via.Acquire(q.ctx, r); err == nil && a.Status == node.Granted {
			q.heard(next)
			break
		} else if time.Now().After(deadline) {
			q.failf(0, "%v after Close, the next in the queue: %+v, %v; want it granted", q.patience, a, err)
		}
	}
	// With no waiter behind, the name is free for any client.
	q.name = first
	holder, gone, stranger := q.holdsAny(), q.waiter(q.far, 10), waiter{via: q.node}
	gone.via = q.node
	q.queued(gone)
	q.releases(holder)
	q.free()
	q.granted(stranger)
	q.ahead(stranger, 0)
}

// At the word that a notification may have been missed, all waiters of a client ask.
// A node that says so for nothing makes them poll.
func healthyNodeMissesNothing(q *queueSuite) {
	holder, w1, w2 := q.contended()
	q.releases(holder, w1)
	q.unreserved()
	q.refused(waiter{})
	q.heard(w2)
	for _, e := range []*listener{q.near, q.far} {
		e.mu.Lock()
		missed := e.missed
		e.mu.Unlock()
		if missed != 0 {
			q.failf(0, "told %d times that a notification may have been missed", missed)
		}
	}
}
