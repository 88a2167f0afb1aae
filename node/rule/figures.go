package rule

import (
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Figures that are the same for all nodes and clients of a group.
const (
	// ReservationTTL is for how long a node reserves a free name for the waiter
	// that it has notified. A waiter that is hung is passed over after it.
	ReservationTTL = time.Second

	// QueueExpiry is for how long a node keeps a queue whose waiters have not been heard of: none
	// came, and none asked again. Each waiter asks every few seconds.
	QueueExpiry = 15 * time.Second

	// MaxQueue bounds the waiters that a node keeps in the queue of one name. Those
	// beyond it poll.
	MaxQueue = 10_000

	// MaxProposal is the largest number that may be proposed, 2^52; the wall clock
	// reaches it in the year 2112. A client whose clock is centuries ahead must not
	// use up the tokens: above this bound a register moves in steps of one.
	MaxProposal fence.Token = 1 << 52
)

// Drift is what is taken off a lease of length ttl for clocks that run at slightly different rates.
// It is 1 % plus 2 ms, the figures of the Redlock page ("Is the algorithm asynchronous?"). A node
// that lost its memory waits for so much longer than the longest lease.
func Drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
