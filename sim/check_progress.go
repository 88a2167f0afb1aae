package sim

import (
	"fmt"
	"time"
)

// progressCheck: once nothing fails any more, nobody waits for longer than a
// bound.
type progressCheck struct {
	bound   time.Duration
	quietAt time.Duration
	waiting []time.Duration // since when, by client; negative: not at all
	longest time.Duration
}

func newProgressCheck(clients int, bound, quietAt time.Duration) progressCheck {
	c := progressCheck{bound: bound, quietAt: quietAt, waiting: make([]time.Duration, clients)}
	for i := range c.waiting {
		c.waiting[i] = -1
	}
	return c
}

func (c *progressCheck) begins(client int, now time.Duration) { c.waiting[client] = now }

// ends is told that a client waits no more: it has the lock or gave up.
func (c *progressCheck) ends(client int) { c.waiting[client] = -1 }

// served is told that a client has got its lock.
func (c *progressCheck) served(client int, now time.Duration) (violation string) {
	since := c.waiting[client]
	c.ends(client)
	return c.waited(client, since, now)
}

func (c *progressCheck) waited(client int, since, now time.Duration) (violation string) {
	if since < 0 || now < c.quietAt {
		return ""
	}
	waited := now - max(since, c.quietAt)
	c.longest = max(c.longest, waited)
	if waited > c.bound {
		return fmt.Sprintf("client %d has waited for %v since nothing fails, more than %v", client, waited, c.bound)
	}
	return ""
}

// finish is told of the end of the run.
func (c *progressCheck) finish(now time.Duration) (violation string) {
	for client, since := range c.waiting {
		if since >= 0 {
			return fmt.Sprintf("client %d still waits, %v after it was quiet", client, now-max(since, c.quietAt))
		}
	}
	return ""
}
