package shell

import (
	"context"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Client takes locks on one quorum group, for one process. It is safe for concurrent
// use.
type Client struct {
	group   *group
	queues  localQueues
	waiters *waiters
}

// NewClient makes a Client. It sends nothing.
func NewClient(c Config) *Client {
	g := newGroup(c)
	g.strays.send = func(peer int, r node.Request, done func(heard, freed bool)) {
		leave(g, core.Set(0).With(peer), r, func(_ *leaving, unheard core.Set, freed bool) { done(unheard == 0, freed) }, nil)
	}
	return &Client{group: g, waiters: newWaiters(g)}
}

// Acquire begins an acquisition that waits until the lock is free. TryAcquire begins one that makes
// a single attempt, or a few where several meet and the lock is free. The Acquisition is zero, and
// must not be copied. The owner is told what comes of it. Values has the values of the caller's
// context, and no end. The terms' TTL is at least four times the node timeout.
func (c *Client) Acquire(a *Acquisition, values context.Context, name string, terms Terms, owner Owner) {
	a.init(c, values, name, terms, owner)
	a.wait()
}

// TryAcquire is explained at Acquire.
func (c *Client) TryAcquire(a *Acquisition, values context.Context, name string, terms Terms, owner Owner) {
	a.init(c, values, name, terms, owner)
	a.try()
}

// Adopt begins the adoption of a lock that another process has exported, in one attempt: see
// TryAcquire for the rest.
func (c *Client) Adopt(a *Acquisition, values context.Context, name string, from *Exported, owner Owner) {
	a.init(c, values, name, from.Terms, owner)
	a.from = from
	a.try()
}

// Terms returns those that the Client was made with.
func (c *Client) Terms() Terms { return c.group.Terms }

// Close ends the acquisitions that wait, and those that come. It calls idle when what is under way
// to the nodes has ended. That is bounded by the node timeout, for a release by three tenths of the
// TTL while the nodes are behind. Locks that are held are not extended any more, and not released.
func (c *Client) Close(idle func()) {
	if c.group.inflight.close() {
		c.queues.close()
		c.group.strays.end()
		c.group.unheard.expireAll()
	}
	c.group.inflight.add(0, idle)
}

// Closed reports whether Close was called.
func (c *Client) Closed() bool { return c.group.inflight.isClosed() }

// Observe makes the Client propose more than a token.
func (c *Client) Observe(token fence.Token) { c.group.observe(token) }

// Counts are what a Client has in memory, for tests: what grows without end is a
// leak.
type Counts struct {
	Waiters  int // in the nodes' queues, or not forgotten yet
	Held     int // locks that are to be woken
	InFlight int // fanouts that have not ended
	Strays   int // releases that are repeated
}

// Counts returns what the Client has in memory.
func (c *Client) Counts() Counts {
	return Counts{c.waiters.len(), c.group.ticks.len(), c.group.inflight.len(), c.group.strays.len()}
}
