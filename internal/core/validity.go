package core

import (
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// Validity returns the moment up to which a holder may believe in leases of length ttl, requested
// at start, on the clock of start. Elapsed time counts from before the first request was sent, so
// it is part of the result.
func Validity(start, ttl time.Duration) time.Duration { return start + ttl - rule.Drift(ttl) }

// Quorum returns the majority of n nodes.
func Quorum(n int) int { return node.Quorum(n) }

// Proposal returns the number to propose for a new acquisition. It is the wall clock in
// microseconds, or one more than the largest token this client has seen. No promise rests on it.
// All nodes are likely to take this very number, which makes an acquisition one round trip.
func Proposal(wallMicros int64, seen fence.Token) fence.Token {
	p := seen + 1
	if wallMicros > int64(p) {
		p = fence.Token(wallMicros)
	}
	return min(p, rule.MaxProposal)
}
