package check

import (
	"fmt"
	"time"
)

// Progress: once nothing fails any more, no client waits for longer than a bound.
type Progress struct {
	Bound   time.Duration // may be raised while the check goes on
	Longest time.Duration // that a client has waited since it was quiet

	quietAt time.Duration
	waiting []time.Duration // since when, by client; negative: not at all
}

// NewProgress returns a check of clients that may wait for a bound from quietAt on.
func NewProgress(clients int, bound, quietAt time.Duration) Progress {
	c := Progress{Bound: bound, quietAt: quietAt, waiting: make([]time.Duration, clients)}
	for i := range c.waiting {
		c.waiting[i] = -1
	}
	return c
}

// Begins is told that a client waits from now on.
func (c *Progress) Begins(client int, now time.Duration) { c.waiting[client] = now }

// Ends is told that a client waits no more: it has the lock or gave up.
func (c *Progress) Ends(client int) { c.waiting[client] = -1 }

// Served is told that a client has got its lock.
func (c *Progress) Served(client int, now time.Duration) (violation string) {
	since := c.waiting[client]
	c.Ends(client)
	return c.waited(client, since, now)
}

func (c *Progress) waited(client int, since, now time.Duration) (violation string) {
	if since < 0 || now < c.quietAt {
		return ""
	}
	waited := now - max(since, c.quietAt)
	c.Longest = max(c.Longest, waited)
	if waited > c.Bound {
		return fmt.Sprintf("client %d has waited for %v since nothing fails, more than %v", client, waited, c.Bound)
	}
	return ""
}

// Waits reports whether a client waits.
func (c *Progress) Waits(client int) bool { return c.waiting[client] >= 0 }

// Finish is told of the end of the run.
func (c *Progress) Finish(now time.Duration) (violation string) {
	for client, since := range c.waiting {
		if since >= 0 {
			return fmt.Sprintf("client %d still waits, %v after it was quiet", client, now-max(since, c.quietAt))
		}
	}
	return ""
}
