package node

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Admin is an engine that shows its leases and queues to an operator, who may break a
// lock by the operation ForceRelease. To look changes nothing.
type Admin interface {
	// Inspect returns the lease of a name and the register of its stripe.
	Inspect(ctx context.Context, name string) (Lease, error)

	// Waiting returns the first waiters in the queue of a name, in order, at most limit of them,
	// and how many there are. An engine that is no Queuer has no waiters.
	Waiting(ctx context.Context, name string, limit int) (first []Waiter, all int, err error)

	// List calls yield for the lease of every name with a prefix, in any order, until yield returns
	// false. Leases that come or go meanwhile may or may not be listed, and where there are very
	// many, one may be listed twice. It reads a bounded number of them at a time, so that it keeps
	// no other client waiting.
	List(ctx context.Context, prefix string, yield func(Lease) bool) error
}

// Lease is what an operator sees of a name on one node. The holder's identity is left out on
// purpose: it lets its reader release the lease.
type Lease struct {
	Name string
	// Leased reports whether a client has it. If not, only Name and Register are set.
	Leased bool
	Label  string // empty for a lease of another Redlock client
	// Holder is the holder's Fingerprint: equal on all nodes where it is the same one's.
	Holder uint64
	// Reserved reports that the name is kept for a waiter that was notified, for a
	// second. Label is NextInQueue then.
	Reserved bool
	// Shared reports that several can share the name, or do: Holder and Label are of all of them,
	// and Token and Origin of none. Shares has each of them.
	Shared bool
	shares string
	// Slots is how many slots the name has, of which its holders have one each; 0: none.
	Slots int
	// Since is when its attempt began, on its own wall clock; zero if that is not known.
	Since time.Time
	// Token is the holder's, 0 as long as the node has not been told. Then, if a quorum has one
	// Origin, that is it: an attempt that finds so many equal need not confirm its token.
	Token     fence.Token
	Origin    fence.Token   // what R was when the lease was created; 0 if it is not fenlock's
	Remaining time.Duration // 0 for a lease that has no end
	// Bound reports that the lease ends with the processes that have it, and not by time (Binder).
	Bound    bool
	Register fence.Token // R: of the name's stripe
	// Members are the nodes of the group as this one has them recorded, sorted, with spaces
	// between; empty if it has not, or the lease is one of a list.
	Members string
	// Out reports that the node does not vote, since it may have forgotten leases: that it has
	// none means nothing then. False if the lease is one of a list.
	Out bool
}

// Waiter is what an operator sees of a waiter in a queue of one node.
type Waiter struct {
	Label  string        // empty if it has none
	Waited time.Duration // since it came, by the clock of the node that shows it
	// ID tells waiters apart, on all nodes, and tells nothing about them: a hash.
	ID uint64
}

// LeaseOf returns what an operator sees of the lease of a holder, which may be empty, for engines.
// Label, Holder, Reserved, Since, Shared, Slots and Shares come from the holder. The times in the
// lines of one that is Shared are nanoseconds.
func LeaseOf(name string, h Holder) Lease {
	l := Lease{Name: name, Leased: h != "", Label: h.Label(), Holder: h.Fingerprint(), Reserved: h.Reserves(),
		Since: h.Since(), Shared: h.Shared(), Slots: h.Slots(), shares: sharesOf(h)}
	l.Reserved = l.Reserved || l.Shared && l.Label == NextInQueue
	return l
}

// WaiterOf returns what an operator sees of the waiter at a place, when the clock that
// its stamp is of shows now.
func WaiterOf(at Place, now time.Duration) Waiter {
	return Waiter{
		Label:  WaiterLabel(at.Waiter),
		Waited: max(now-time.Duration(at.Stamp)*time.Microsecond, 0),
		ID:     Holder(at.Waiter).Fingerprint(),
	}
}
