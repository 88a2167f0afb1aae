package sim

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// missed notes that a node has not answered a request in time, or that it does not vote. For all
// that the client can tell, it has been so since the request was sent.
func (c *client) missed(node int, sent time.Duration) { c.healing.Missed(node, sent, c.w.now) }

// leftOver reports whether a node cannot have the lease that was extended because of another
// client's. That client died, or was cut off, in the middle of an attempt. Its lease ends by
// itself. What is reserved for a waiter is no reason.
func leftOver(n *server, r node.Request, a node.Answer) bool {
	l, leased := n.store.Leases[r.Name]
	return r.Op == node.Extend && a.Status == node.Lost && leased && n.local() < l.Expires && !l.Holder.Reserves()
}

// absent notes that the client itself does nothing until some time.
func (c *client) absent(until time.Duration) { c.healing.Absent(until) }

// lostWrongly is asked when the lock's context ends.
func (l *lock) lostWrongly() (violation string) {
	c, why := l.c, l.attempt.Reason()
	lost := !l.released && !c.closing && (why == core.Expired || why == core.Taken) && l.attempt.Until() != l.brief
	if lost && c.w.profile.overload {
		c.w.violate("overload", fmt.Sprintf("attempt %d of client %d loses name %d, and no more is wrong than load",
			l.id, c.id, l.name))
	}
	if violation = c.healing.Ends(l.id, lost, c.w.now); violation != "" {
		violation = fmt.Sprintf("client %d, name %d: %s", c.id, l.name, violation)
	}
	return violation
}
