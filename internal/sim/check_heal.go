package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// A held lock heals: it is not lost while a majority of the nodes answers throughout,
// and each node that comes back has half a TTL before the next one goes, whatever
// others do. A lock that is younger than that may have leases at a bare majority: the
// other nodes were somebody else's for a moment.

// presence is which nodes have answered a client.
type presence struct {
	settled []time.Duration // by node: when it has answered for long enough
	sorted  []time.Duration // the same in order, kept because it is needed often
	shaken  time.Duration   // when so many have that they are a majority
}

// missed notes that a node has not answered a request in time, or that it does not vote.
func (c *client) missed(node int) {
	p, now := &c.presence, c.w.now
	p.settled[node] = now + c.ttl/2
	p.sorted = append(p.sorted[:0], p.settled...)
	slices.Sort(p.sorted)
	p.shaken = max(p.shaken, p.sorted[core.Quorum(len(p.sorted))-1])
	for _, l := range c.held {
		if now < l.began+c.ttl/2 {
			p.shaken = max(p.shaken, now+c.ttl/2)
		}
	}
}

// leftOver reports whether a node cannot have the lease that was extended because of
// somebody else's: who died, or was cut off, in the middle of an attempt has left it, and
// it ends by itself. What is reserved for a waiter is no reason.
func leftOver(n *server, r node.Request, a node.Answer) bool {
	l, leased := n.store.Leases[r.Name]
	return r.Op == node.Extend && a.Status == node.Lost && leased && n.local() < l.Expires && !l.Holder.Reserves()
}

// absent notes that the client itself does nothing until some time.
func (c *client) absent(until time.Duration) {
	c.presence.shaken = max(c.presence.shaken, until+c.ttl/2)
}

// lostWrongly is asked when the lock's context ends. What happened more than a TTL and
// a half ago is over: either the lock was lost by it then, or it has healed since.
func (l *lock) lostWrongly() (violation string) {
	c, why := l.c, l.attempt.Reason()
	if l.released || c.closing || why != core.Expired && why != core.Taken || c.w.now < c.presence.shaken+c.ttl*3/2 {
		return ""
	}
	return fmt.Sprintf("attempt %d of client %d loses name %d, although a majority of the nodes has answered for %v",
		l.id, c.id, l.name, c.w.now-c.presence.shaken)
}
