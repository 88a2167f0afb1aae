package node

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Queuer is an engine that keeps the waiters for a name in a queue, in the order of
// their stamps (equal ones: of the waiters' bytes), and notifies the one whose turn it
// is. Where an engine does not, its waiters poll. Queues decide who tries next,
// never who holds: they are lost with the node's memory, and may be.
//
// To notify a waiter is to take it out of the queue, to tell it, and to reserve the
// name for it, for one second, by a lease that refuses everybody else. A waiter
// that cannot be told, because its process has ended, is dropped and the next
// one is notified.
//
// What queues add to the operations, all in the same atomic step (package rule has
// it as code):
//   - Acquire of a name that is reserved for r.Place.Waiter is granted, whoever has
//     come before it since.
//   - Acquire that is refused with Held puts the waiter into the queue, unless it
//     is in already or is empty.
//   - Acquire of a name that is free goes by the queue, after the asker was put into
//     it: if the asker is first, it is granted and leaves the queue. Otherwise the
//     first one is notified, and the asker is refused.
//   - Release that removed the lease, and ForceRelease, notify the first one.
//     With r.Place the Release speaks for that waiter too: it gives up what is
//     reserved for it, and notifies the next; and it puts it into the queue again (its
//     attempt has failed), or takes it out if the stamp is 0 (its wait is over).
//     A waiter that is put into the queue again and is the first itself is not
//     notified. Without a lease of r.Holder, which may be empty then, the answer is Lost.
//
// A place that is malformed is an error that matches ErrInvalid, and changes
// nothing. A queue has at most 10,000 waiters, and is forgotten when no waiter
// has come or asked again for 15 s.
type Queuer interface {
	// Listen makes the waiters of a client reachable on this node, until Close:
	// those whose identity is client, a colon and a number. It returns nil once
	// they are, or why they are not by the time that ctx is done; in both cases
	// it goes on in the background, through broken connections too.
	//
	// It calls notify with each waiter that is notified, and with "" when that may
	// have been missed: when the waiters have become reachable again, or late.
	// Notify returns at once. A Locker calls Listen once; Lockers that share the
	// node are different clients.
	Listen(ctx context.Context, client string, notify func(waiter string)) error
}

// Place is a waiter's place in the queue of a name.
type Place struct {
	// Waiter is the identity of one wait, the same on all nodes and for all of its
	// attempts: the client's, IDLength lower-case hexadecimal digits, then a colon and a
	// number of 1 to 19 digits. Empty is nobody, who is never in a queue.
	Waiter string
	// Stamp is when the wait began, in microseconds of the nodes' time: the same
	// on all nodes, so that they agree about who is next. At most 2^53. In a Release, 0
	// means that the wait is over.
	Stamp int64
}

// Starter is a Node whose operations can be begun without a goroutine that waits
// for each of them, so that those that come together can be sent together. A
// Locker then uses Start in place of Do; a wrapper that changes one has to change
// Start too, or not to have it.
type Starter interface {
	Node
	// Start begins an operation of the life of a lock (the outcome of another one is
	// an error that matches ErrInvalid), and returns without waiting for the server.
	// The rules for Do hold, except that call.Done takes the outcome. What has not
	// been sent after timeout, or when it is not wanted any more, must not be sent.
	Start(r Request, timeout time.Duration, call Call)
}

// Ordered is a Starter that may promise to carry out requests about one name in the
// order of the calls of Start, also where some of them have to wait for a
// connection: what a connection that was lost left behind is the only exception.
// Then a release needs not wait for the answer to the acquire that it undoes.
type Ordered interface {
	Starter
	// InOrder reports whether the promise is given. It is asked once.
	InOrder() bool
}

// Call waits for the outcome of an operation that was started. Its methods return
// at once and are safe for concurrent use.
type Call interface {
	// Wanted reports whether the outcome can still be of use.
	Wanted() bool
	// Done takes the outcome. It is called once, from any goroutine, also before
	// Start has returned, and however late: the caller has a timer of its own.
	Done(Answer, error)
}

// Admin is an engine that shows its leases to an operator, who may break one by the
// operation ForceRelease.
type Admin interface {
	// Inspect returns the lease of a name and the register of its stripe. A name
	// without a lease has Remaining 0.
	Inspect(ctx context.Context, name string) (Lease, error)

	// List calls yield for every lease until yield returns false. Leases that
	// come or go meanwhile may or may not be listed.
	List(ctx context.Context, yield func(Lease) bool) error
}

// Lease is what an operator sees of a name on one node. The holder's identity
// is left out on purpose: whoever knows it can release the lease.
type Lease struct {
	Name      string
	Label     string // empty for a lease of another Redlock client
	Remaining time.Duration
	Register  fence.Token // of the name's stripe
}

// Rejoiner is an engine that can lose its memory while its address stays the same.
// A Locker calls Join once, before any operation.
type Rejoiner interface {
	// Join tells the node its quorum group. It does no I/O. A node that is
	// joined to two different groups returns an error.
	Join(g Group) error
	// Registers returns all registers, for the rebuilding of another node.
	Registers(ctx context.Context) (Registers, error)
}

// Group is what a node needs to know to be admitted again after a loss.
type Group struct {
	Nodes []Node // all of them, the node itself included
	// MaxTTL is the longest lease that anybody in the group may take; a node
	// that lost its memory stays out for so long.
	MaxTTL time.Duration
	// Warn is told, in one line, when a node is out, why and until when, or
	// when it is misconfigured. It may be called at any time from any goroutine.
	Warn func(n Node, message string)
}

// Registers is one node's registers, and what they are worth.
type Registers struct {
	Server   string // identifies the server: two nodes with the same one are one
	Memory   string // identifies what it remembers: another one after each loss
	Admitted bool   // the node has its memory; false: what is left of it
	// Empty are the memories that were found lost when this node was admitted
	// while a majority had lost theirs, or in a new group.
	Empty  []string
	MaxTTL time.Duration       // as recorded; 0 if it is not
	Tokens map[int]fence.Token // by stripe; absent is 0
}
