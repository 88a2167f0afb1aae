package sqlnode

import (
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// queue is the waiter queue of one name, in the tables, during one transaction. It
// reads nothing before it is asked: loading up to 10,000 waiters for every operation
// would cost more than the operation.
//
// A queue is one row in fenlock_lines, with its expiry, and one row for each waiter
// in fenlock_waiters. Without the first there is no queue: an operation on a
// name that nobody waits for costs one look-up.
type queue struct {
	*step
	name []byte
	now  time.Duration

	loaded  bool
	stored  bool             // has a row, maybe one that has expired
	alive   bool             // has one that has not
	expires time.Duration    // if alive
	left    bool             // somebody has left
	pipes   map[string]*pipe // of the waiters that were reachable
}

var _ rule.Queue = (*queue)(nil)

// renewal is by how much a queue may expire early, so that it is not written for
// each of its waiters' questions.
const renewal = time.Second

// exists reports whether anybody was in the queue, before it was changed. A queue of
// another boot is void: its waiters died with that boot.
func (q *queue) exists() bool {
	if q.loaded {
		return q.alive
	}
	q.loaded = true
	var expires int64
	var boot string
	if q.stored = q.row(&q.node.stmt.queue, []any{q.name}, &expires, &boot); q.stored {
		q.expires = time.Duration(expires) * time.Millisecond
		q.alive = boot == q.node.boot && q.now < q.expires
	}
	return q.alive
}

// stamp returns the place of a waiter, and whether it is in the queue.
func (q *queue) stamp(waiter string) (stamp int64, in bool) {
	if waiter != "" && q.exists() {
		in = q.row(&q.node.stmt.stamp, []any{q.name, waiter}, &stamp)
	}
	return stamp, in
}

// Head implements rule.Queue.
func (q *queue) Head() (waiter string) {
	if q.exists() {
		q.row(&q.node.stmt.head, []any{q.name}, &waiter)
	}
	return waiter
}

// Ahead implements rule.Queue.
func (q *queue) Ahead(waiter string) (count int, in bool) {
	if !q.exists() {
		return 0, false
	}
	stamp, in := q.stamp(waiter)
	if in {
		q.row(&q.node.stmt.before, []any{q.name, stamp, waiter}, &count)
	} else {
		q.row(&q.node.stmt.all, []any{q.name}, &count)
	}
	return count, in
}

// Insert implements rule.Queue.
func (q *queue) Insert(p node.Place) {
	if !q.exists() {
		if q.stored {
			q.exec(&q.node.stmt.clear, q.name)
		}
		q.remember()
	}
	q.exec(&q.node.stmt.insert, q.name, p.Stamp, p.Waiter)
	// More rows than the one that was added, as with leases. Queues that have
	// expired are few: only those whose processes have all been killed.
	q.exec(&q.node.stmt.purgeWaiters, q.now.Milliseconds(), purgeSize)
	q.exec(&q.node.stmt.purgeQueues, q.now.Milliseconds(), purgeSize)
}

// Remove implements rule.Queue.
func (q *queue) Remove(waiter string) {
	if _, in := q.stamp(waiter); in {
		q.exec(&q.node.stmt.remove, q.name, waiter)
		q.left = true
	}
}

// Renew implements rule.Queue.
func (q *queue) Renew() {
	if q.exists() && q.expires-q.now < rule.QueueExpiry-renewal {
		q.remember()
	}
}

func (q *queue) remember() {
	q.stored, q.alive, q.expires = true, true, q.now+rule.QueueExpiry
	q.exec(&q.node.stmt.setQueue, q.name, q.expires.Milliseconds(), q.node.boot)
}

// Reachable implements rule.Queue. It keeps the pipe of a waiter that is.
func (q *queue) Reachable(waiter string) bool {
	if q.pipes[waiter] != nil {
		return true
	}
	p := q.node.reach(waiter)
	if p != nil {
		if q.pipes == nil {
			q.pipes = map[string]*pipe{}
		}
		q.pipes[waiter] = p
	}
	return p != nil
}

// close closes the pipes; of no queue, there are none.
func (q *queue) close() {
	if q == nil {
		return
	}
	for _, p := range q.pipes {
		p.close()
	}
}

// end removes the queue if nobody is left in it.
func (q *queue) end() {
	if q.left {
		q.exec(&q.node.stmt.dropQueue, q.name)
	}
}
