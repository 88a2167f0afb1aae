package core

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Drift is what is taken off a lease of length ttl for clocks that run at
// slightly different rates: 1 % plus 2 ms, the figures of the Redlock page
// ("Is the algorithm asynchronous?").
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Validity returns the moment up to which a holder may believe in leases of
// length ttl that were requested at start, on the clock of start. Elapsed time
// counts from before the first request was sent, so it is part of the result.
func Validity(start, ttl time.Duration) time.Duration { return start + ttl - Drift(ttl) }

// Quorum returns the majority of n nodes.
func Quorum(n int) int { return n/2 + 1 }

// MaxProposal is the largest number that may be proposed, 2^52; the wall clock
// reaches it in the year 2112. A client whose clock is centuries ahead must not
// use up the tokens: above this bound a register moves in steps of one.
const MaxProposal fence.Token = 1 << 52

// Proposal returns the number to propose for a new acquisition: the wall clock
// in microseconds, or one more than the largest token this client has seen.
// No promise rests on it. It is chosen so that all nodes are likely to take the
// very same number, which makes an acquisition one round trip.
func Proposal(wallMicros int64, seen fence.Token) fence.Token {
	p := seen + 1
	if wallMicros > int64(p) {
		p = fence.Token(wallMicros)
	}
	return min(p, MaxProposal)
}
