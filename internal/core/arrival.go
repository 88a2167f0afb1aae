package core

import (
	"slices"
	"time"
)

// NodeTime estimates what the nodes' clocks show. Waiters are in the queue by when they came, and
// clients' clocks need not agree. A client whose clock is slow would be before all others, always.
// All clients of a group see the same nodes. So the median of the nodes' clocks is the same for all
// of them, to within a round trip. No promise rests on it, only the order in the queue.
//
// The zero NodeTime knows no clock. Not safe for concurrent use.
type NodeTime struct {
	nodes [MaxNodes]clockSample
}

// clockSample is what a node's clock was ahead of the client's.
type clockSample struct {
	offset time.Duration
	trip   time.Duration // of the request that told; the error is at most half of it
	at     time.Duration
	known  bool
}

// sampleAge is when a sample that was better is given up: clocks drift, and
// servers are replaced.
const sampleAge = 30 * time.Second

// Observe takes the time that a node showed in its answer to a request. The request was sent at one
// time of the client's clock and answered at another.
func (c *NodeTime) Observe(node int, sent, received, clock time.Duration) {
	s := &c.nodes[node]
	trip := received - sent
	if s.known && trip > s.trip && received-s.at < sampleAge {
		return
	}
	*s = clockSample{offset: clock - sent - trip/2, trip: trip, at: received, known: true}
}

// At returns the nodes' time at a time of the client's clock, false if no node
// has told its own.
func (c *NodeTime) At(now time.Duration) (time.Duration, bool) {
	offsets := make([]time.Duration, 0, MaxNodes)
	for i := range c.nodes {
		if c.nodes[i].known {
			offsets = append(offsets, c.nodes[i].offset)
		}
	}
	if len(offsets) == 0 {
		return 0, false
	}
	slices.Sort(offsets)
	return now + offsets[len(offsets)/2], true
}
