package node

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Node is one independent store that can hold a lock on its own: a Valkey or
// Redis primary, a database. A Locker takes a lock by majority over its nodes.
//
// It is safe for concurrent use.
type Node interface {
	// String names the node for people: an address or a path, no password.
	String() string

	// Do carries out one operation, atomically on the store. It returns an Answer
	// only if the store answered; an error means that it is not known whether the
	// operation took effect, took none, or will take effect later. An error therefore
	// counts neither for nor against, and the Locker releases what may be there.
	//
	// Rules for every operation, all checked by the suite in package nodetest:
	//   - it is sent once: never retried in a way that could execute it twice;
	//   - it returns soon after ctx is done, whatever the server does;
	//   - its error names the node and contains no password;
	//   - an operation that the engine does not know, or a malformed request, is an
	//     error that matches ErrInvalid, and changes nothing.
	Do(ctx context.Context, r Request) (Answer, error)

	// Close frees the node's connections. Operations after it return an error; a
	// second Close does nothing.
	Close() error

	// Engine returns what may be a Queuer, a Rejoiner or an Admin as well, and can be
	// compared. An engine returns itself, a pointer. A wrapper that embeds a Node has
	// the method of that one.
	Engine() any
}

// Op names an operation.
type Op uint8

// The operations of the life of a lock. R is the register of the name's stripe.
// Package rule has them as code.
const (
	// Acquire leases Name to Holder for TTL, sets R to the larger of R + 1 and Token (the
	// proposal), and is Granted with R. Held if the name is leased, to any holder.
	Acquire Op = 1 + iota
	// Confirm sets R to Token while the lease is Holder's. Outrun, with R, if that
	// is larger already; Lost if the lease is not the holder's. Token is then the
	// lease's, as OwnToken is.
	Confirm
	// Extend renews the lease of Holder to TTL from now. It creates the lease again if there is
	// none, or the name is reserved for a waiter. Lost otherwise. Then it sets R to the larger of R
	// and Token (the floor, 0 for none). Granted carries the lease's origin: what R was, after the
	// operation, when an Acquire created the lease, and before it, when an Extend did. Renewing a
	// lease keeps its origin.
	Extend
	// Release removes the lease of Holder, no other: Granted, or Lost if it is not there.
	Release
)

// Sharer is an engine that looks at Request.Shared. With it
//   - Acquire is granted too if the name is leased to others who share it, see Queuer for their
//     order; with the number that was promised to these, and R as it is. A
//     node takes 256 at least at a time.
//   - Extend shares the name from then on if it was leased to the Holder alone. It is granted too
//     if it is leased to others that share it.
//
// An Acquire without it is refused as long as the name is shared. Holders that differ in
// Holder.Slots do not share a name: each treats the other's lease as exclusive.
type Sharer interface{ Shares() }

// Located is an engine that knows a place of its own: two nodes of a process whose Location is
// equal, by ==, have the same leases. So an acquisition that would wait for a lock of its own
// caller, through another node of the same store, fails at once. If in doubt, for example where the
// caller has opened the connections, it is a pointer. Then equal names are not taken for equal
// stores. Without it the place is the Engine.
type Located interface{ Location() any }

// Binder is an engine that may bind leases to the processes that have them, instead of to a time. A
// lease ends at once when the last of these has ended, and never before. If Binds reports true, TTL
// in an Acquire or an Extend means nothing. A Locker makes it long, and asks now and then whether
// the lease is there, as an operator may have removed it. Such a node is the only one of its
// Locker.
type Binder interface{ Binds() bool }

// ForceRelease is the operation of an Admin. It removes the lease of Name, of any holder, and sets
// R to the larger of R + 1 and Token (the floor). Granted carries R. The nodes that answered less
// are asked again, with the largest answer so far as the floor, until a quorum has answered the
// same. Before that, the old holder may still extend the lock.
const ForceRelease Op = 1 + Release

// String returns the operation's name in lower case.
func (o Op) String() string {
	names := [...]string{"none", "acquire", "confirm", "extend", "release", "force release"}
	if int(o) < len(names) {
		return names[o]
	}
	return "op(" + itoa(uint64(o)) + ")"
}

// Request is what an operation is about. Operations ignore fields that their
// comments do not mention.
type Request struct {
	Op     Op
	Name   string
	Holder Holder
	TTL    time.Duration // whole milliseconds count; engines round down
	Token  fence.Token
	// OwnToken is, in an Extend, the holder's fencing token, 0 if it has none yet. The
	// node keeps it with the lease, for those who look at it (Admin). It decides nothing.
	OwnToken fence.Token
	// Shared is of an Acquire and an Extend that let others share the name who want the same: for
	// a Sharer. Others need not look at it: their leases are exclusive then.
	Shared bool
	Place  Place // for a Queuer: see there
	// Next is, in a Release, the number that it proposes for the next in the queue, at most as
	// large as a proposal; 0: nothing is given. A Queuer need not look at it: it reserves the name
	// then.
	Next fence.Token
}

// Status is the kind of an Answer.
type Status uint8

// The answers of a node. There are three kinds, and they are never mixed up:
// granted, refused (for one of four reasons), and unknown.
const (
	// Unknown is no answer of a node: an error stands for it, a timeout, a broken
	// connection. The request may have been executed, may be executed later, or
	// never. It counts neither for nor against.
	Unknown   Status = iota
	Granted          // done as asked
	Held             // acquire: the name is leased already, or reserved for a waiter
	Outrun           // confirm: the lease is the holder's, and the register is larger
	Lost             // confirm, extend, release: the lease is not the holder's (any more)
	Rejoining        // everything: the node has lost its memory, or may have, and is not admitted
)

// String returns the status in lower case.
func (s Status) String() string {
	names := [...]string{"unknown", "granted", "held", "outrun", "lost", "rejoining"}
	if int(s) < len(names) {
		return names[s]
	}
	return "status(" + itoa(uint64(s)) + ")"
}

// Answer is what a node said.
type Answer struct {
	Status   Status
	Register fence.Token // or origin, see the operations; 0 where none is carried
	// HeldBy and Remaining describe the lease that refused an acquire. HeldBy is the other holder's
	// label, empty if it is not a fenlock client. Remaining is the time the lease has left, 0 if it
	// is not known or has no end.
	HeldBy    string
	Remaining time.Duration
	// Holder is, in an answer Held, the Fingerprint of the other holder: clients may have the same
	// label. 0 if the node does not tell.
	Holder uint64
	// Slots is, in an answer Held, Holder.Slots of those who share the name.
	Slots int
	// Ahead is how many waiters are before the one that was refused, all of them if
	// it is not in the queue itself. 0 if the node keeps no queues.
	Ahead int
	// Watching is, in an answer Held, that the waiter is also notified if what it waits for ends
	// without a release. So it need not ask whether those before it live.
	Watching bool
	// Clock is what the node's clock shows, from any epoch, in an answer Held of
	// a Queuer. Waiters are put in order by it.
	Clock time.Duration
	// Given is, in an answer Held, of a lease that was given to the asker's own waiter: the number
	// that came with it. 0 if that is not so.
	Given fence.Token
	// Absence says, for Rejoining, why the node is out and until when.
	Absence Absence
	// Detail says, for Lost, what has become of the lease, where a node knows that its
	// store is another one now.
	Detail string
}

// MaxRegister is the largest register, or origin, that a client believes: 2^50 above the largest
// proposal. Nothing that fenlock does leads there. A larger one was written by another program. If
// it counted, it would be carried to all nodes and use up the numbers of its stripe, for good.
const MaxRegister fence.Token = 5 << 50

// Quorum returns the majority of n nodes.
func Quorum(n int) int { return n/2 + 1 }
