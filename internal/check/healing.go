package check

import (
	"fmt"
	"slices"
	"time"
)

// Healing: a held lock heals. It is not lost, whatever others do, while a majority of the nodes
// answers its client throughout. Each node that comes back must have half a TTL before the next one
// goes. A lock that is younger than that may have leases at a bare majority: the other nodes were
// another client's for a moment.
//
// It is of one client, since nodes may answer one and not another.
type Healing struct {
	ttl     time.Duration
	quorum  int
	settled []time.Duration // by node: when it has answered for long enough
	sorted  []time.Duration // the same in order, kept because it is needed often
	shaken  time.Duration   // when so many have that they are a majority
	held    []holding
}

type holding struct {
	id    int
	began time.Duration
}

// NewHealing returns a check of a client of so many nodes.
func NewHealing(nodes, quorum int, ttl time.Duration) Healing {
	return Healing{ttl: ttl, quorum: quorum, settled: make([]time.Duration, nodes)}
}

// Begins is told of an acquisition, and of when it was begun.
func (c *Healing) Begins(id int, began time.Duration) {
	c.held = append(c.held, holding{id, began})
}

// Missed is told that a node has not answered a request in time, does not vote, or has a lease of
// another client. A client that dies in the middle of an attempt leaves a lease, and it ends by
// itself. It may have been so since some time, since that a node has gone is heard of by a request.
// A lock that has aged meanwhile was young then. Another node that has settled meanwhile had not.
func (c *Healing) Missed(node int, since, now time.Duration) {
	c.settled[node] = now + c.ttl/2
	c.sorted = append(c.sorted[:0], c.settled...)
	slices.Sort(c.sorted)
	if majority := c.sorted[c.quorum-1]; majority > since {
		c.shaken = max(c.shaken, majority)
	}
	for _, l := range c.held {
		if since < l.began+c.ttl/2 {
			c.shaken = max(c.shaken, now+c.ttl/2)
		}
	}
}

// Absent is told that the client itself does nothing until some time.
func (c *Healing) Absent(until time.Duration) { c.shaken = max(c.shaken, until+c.ttl/2) }

// Ends is told that a lock is not held any more. Lost says that its holder did not want
// it to end. What happened more than a TTL and a half ago is over: either the lock was
// lost by it then, or it has healed since.
func (c *Healing) Ends(id int, lost bool, now time.Duration) (violation string) {
	c.held = slices.DeleteFunc(c.held, func(l holding) bool { return l.id == id })
	if !lost || now < c.shaken+c.ttl*3/2 {
		return ""
	}
	return fmt.Sprintf("attempt %d loses its lock, although a majority of the nodes has answered its client for %v", id,
		now-c.shaken)
}
