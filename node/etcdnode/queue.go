package etcdnode

import (
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// queue is the waiter queue of a name during an operation, as rule.Serve sees it. It has what is
// believed of the queue, what was looked at, and what is to be done to it.
type queue struct {
	keys  keys
	name  string
	asker node.Place // as it is, or will be, in the queue
	b     queueBelief

	looked  []queued // those that were first, one after the other
	toEnd   bool     // there was no waiter after these
	short   bool     // the next waiter was not read
	asked   []string // clients, of which the last one is told
	insert  bool
	removed []string // keys
	renewed bool
}

var _ rule.Queue = (*queue)(nil)

// Head implements rule.Queue.
func (q *queue) Head() string {
	if len(q.b.first) == 0 {
		q.short = q.short || q.b.more
		q.toEnd = true
		return ""
	}
	head := q.b.first[0]
	if !slices.Contains(q.looked, head) {
		q.looked = append(q.looked, head)
	}
	return head.Waiter
}

// Ahead implements rule.Queue. It is asked about the asker only.
func (q *queue) Ahead(waiter string) (count int, in bool) {
	if waiter == "" || !q.b.in {
		return q.b.all, false
	}
	return q.b.ahead, true
}

// Insert implements rule.Queue.
func (q *queue) Insert(p node.Place) {
	q.asker, q.insert, q.b.in = p, true, true
	own := queued{Place: p}
	at, _ := slices.BinarySearchFunc(q.b.first, own, func(a, b queued) int {
		return strings.Compare(q.keys.waiter(q.name, a.Place), q.keys.waiter(q.name, b.Place))
	})
	if at < len(q.b.first) || !q.b.more {
		q.b.first = slices.Insert(slices.Clone(q.b.first), at, own)
	}
	q.b.all++
}

// Remove implements rule.Queue.
func (q *queue) Remove(waiter string) {
	at := slices.IndexFunc(q.b.first, func(w queued) bool { return w.Waiter == waiter })
	place := q.asker
	if at >= 0 {
		place = q.b.first[at].Place
		q.b.first = slices.Delete(slices.Clone(q.b.first), at, at+1)
	} else if waiter != q.asker.Waiter {
		return
	}
	if waiter == q.asker.Waiter {
		q.insert, q.b.in = false, false
	}
	if key := q.keys.waiter(q.name, place); !slices.Contains(q.removed, key) {
		q.removed = append(q.removed, key)
	}
}

// Renew implements rule.Queue.
func (q *queue) Renew() { q.renewed = true }

// Reachable implements rule.Queue. Of whom nothing is known it is guessed: the
// transaction looks.
func (q *queue) Reachable(waiter string) bool {
	client := engine.ClientOf(waiter)
	q.asked = append(q.asked, client)
	awake, known := q.b.awake[client]
	return awake || !known
}

// guards compare all that was looked at. They hold if the first waiters are still there, with none
// before them, between them or, where the end was reached, behind them.
func (q *queue) guards() (all []clientv3.Cmp) {
	from := q.keys.queue(q.name)
	for _, w := range q.looked {
		key := q.keys.waiter(q.name, w.Place)
		all = append(all, empty(from, key))
		if w.mod != 0 { // else it is the asker's, which is not there yet
			all = append(all, clientv3.Compare(clientv3.ModRevision(key), "=", w.mod))
		}
		from = key + "\x00"
	}
	if q.toEnd {
		all = append(all, empty(from, q.keys.queueEnd(q.name)))
	}
	for _, client := range q.asked {
		awake, known := q.b.awake[client]
		if awake || !known {
			all = append(all, clientv3.Compare(clientv3.CreateRevision(q.keys.wake(client)), ">", 0))
		} else {
			all = append(all, clientv3.Compare(clientv3.CreateRevision(q.keys.wake(client)), "=", 0))
		}
	}
	return all
}

// empty is true if there is no key in a range. (What is there was created at some
// revision.)
func empty(from, end string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(from).WithRange(end), "=", 0)
}
