package zknode

import (
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// renewal is how much a queue's expiry may be behind: not each question has to be written.
const renewal = time.Second

// mostQueue bounds a queue in bytes: a znode has a megabyte at most (jute.maxbuffer).
const mostQueue = 256 << 10

// queue is the waiter queue of one name during one step. It implements rule.Queue.
type queue struct {
	rule.Waiters
	step    *step
	now     time.Duration
	renewed time.Duration
	changed bool
	size    int
	mailbox *mailbox // of the waiter that was found reachable last
	err     error
}

var _ rule.Queue = (*queue)(nil)

// load takes what was read, unless it is forgotten.
func (q *queue) load() {
	record := &q.step.record
	if q.step.queueThere && q.now < record.renewed+rule.QueueExpiry {
		q.Waiters, q.renewed = append(rule.Waiters(nil), record.waiters...), record.renewed
	}
	for _, w := range q.Waiters {
		q.size += sizeOf(w)
	}
}

func sizeOf(p node.Place) int { return len(p.Waiter) + 20 }

// Insert implements rule.Queue. A queue that is full takes no waiter: the waiters poll.
func (q *queue) Insert(p node.Place) {
	if q.size += sizeOf(p); q.size > mostQueue {
		return
	}
	q.changed = true
	q.Waiters.Insert(p)
}

// Remove implements rule.Queue.
func (q *queue) Remove(waiter string) {
	if _, in := q.Ahead(waiter); in {
		q.changed = true
		q.Waiters.Remove(waiter)
	}
}

// Renew implements rule.Queue.
func (q *queue) Renew() {
	if len(q.Waiters) > 0 && (q.changed || q.now-q.renewed >= renewal) {
		q.changed, q.renewed = true, q.now
	}
}

// Reachable implements rule.Queue: a client that listens has a znode, which goes with its
// session.
func (q *queue) Reachable(waiter string) bool {
	client, _, _ := strings.Cut(waiter, ":")
	if q.err != nil || rule.CheckClient(client) != nil {
		return false
	}
	if q.mailbox = q.step.node.mailboxes.take(client); q.mailbox != nil {
		return true // or the multi is refused
	}
	replies, err := q.step.link.Do(q.step.ctx, wire.Get{Path: q.step.node.paths.client(client)})
	switch {
	case err != nil:
		q.err = err
	case replies[0].Err == wire.OK:
		q.mailbox = readMailbox(client, replies[0])
		return true
	case replies[0].Err != wire.NoNode:
		q.err = q.step.node.describe(replies[0].Err)
	}
	return false
}

// waiterOf is whom a reservation is for.
func waiterOf(h node.Holder) string {
	_, waiter, _ := strings.Cut(string(h), ":")
	return waiter
}
