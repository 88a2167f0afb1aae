package nodetest_test

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// brokenQueues are the waiter queues of a broken node, and what can be wrong with them
// besides what it does in an operation. As newBrokenQueues returns them, they are
// sound.
type brokenQueues struct {
	byName    map[string]*brokenQueue
	listeners []listener

	key       func(name string) string
	reachable func(q *brokenQueue, waiter string) bool
	tell      func(s *served) []string
	shown     func(first []node.Waiter) ([]node.Waiter, int)
	expiry    time.Duration

	renewed, listens, anybody, nervous, slow bool

	arrivals int64 // of those whom a mutant counts
}

// brokenQueue is the queue of one name, during an operation.
type brokenQueue struct {
	rule.Waiters
	n       *brokenQueues
	now     time.Duration
	expires time.Duration
}

type listener struct {
	of     *queuer
	client string
	notify func(string)
}

// queuer is one of several users of a broken node that keeps queues.
type queuer struct{ *client }

func newBrokenQueues() brokenQueues {
	return brokenQueues{
		byName:    map[string]*brokenQueue{},
		key:       func(name string) string { return name },
		reachable: func(q *brokenQueue, waiter string) bool { return len(q.n.listenersOf(waiter)) > 0 },
		tell:      func(s *served) []string { return []string{s.notify} },
		shown:     func(first []node.Waiter) ([]node.Waiter, int) { return first, len(first) },
		expiry:    rule.QueueExpiry, renewed: true,
	}
}

func (n *brokenQueues) listenersOf(waiter string) (notify []func(string)) {
	for _, l := range n.listeners {
		if strings.HasPrefix(waiter, l.client+":") && !l.of.closed.Load() {
			notify = append(notify, l.notify)
		}
	}
	return notify
}

// of returns the queue of a name at now.
func (n *brokenQueues) of(name string, now time.Duration) *brokenQueue {
	q := n.byName[n.key(name)]
	if q == nil || q.expires <= now {
		q = &brokenQueue{n: n, expires: now + n.expiry}
		n.byName[n.key(name)] = q
	}
	q.now = now
	return q
}

func (q *brokenQueue) Renew() {
	if q.n.renewed {
		q.expires = q.now + q.n.expiry
	}
}

func (q *brokenQueue) Reachable(waiter string) bool { return q.n.reachable(q, waiter) }

// join puts a waiter into the queue, once.
func (q *brokenQueue) join(p node.Place) {
	if _, in := q.Ahead(p.Waiter); p.Waiter != "" && !in {
		q.Insert(p)
	}
}

// told returns what tells those whom an operation has notified.
func (n *brokenQueues) told(s *served) (tell []func()) {
	if s.notify == "" {
		return nil
	}
	for _, waiter := range n.tell(s) {
		for _, notify := range n.listenersOf(waiter) {
			tell = append(tell, func() { notify(waiter) })
		}
	}
	return tell
}

func (c *queuer) Engine() any { return c }

func (c *queuer) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	a, tell, err := c.do(ctx, r, func(now time.Duration) *brokenQueue { return c.queues.of(r.Name, now) })
	for _, t := range tell {
		t()
	}
	return a, err
}

func (c *queuer) Listen(_ context.Context, client string, notify func(string)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() && !c.queues.listens {
		return c.wrap(errClosed, node.Request{})
	}
	if rule.CheckClient(client) != nil && !c.queues.anybody {
		return c.wrap(node.ErrInvalid, node.Request{})
	}
	c.queues.listeners = append(c.queues.listeners, listener{c, client, notify})
	if c.queues.nervous {
		notify("")
	}
	return nil
}

// forever is later than any test.
const forever = time.Duration(math.MaxInt64) / 2
