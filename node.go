package fenlock

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rule"
)

// Node is one independent store that can hold a lock on its own: a Valkey or
// Redis primary, a database. A Locker takes a lock by majority over its nodes.
//
// Every operation is atomic on the node. It returns an Answer only if the node
// answered; an error means that it is not known whether the operation took
// effect, took none, or will take effect later. An error therefore counts
// neither for nor against, and the Locker releases what may be there.
//
// Rules for every operation, all checked by the suite in package nodetest:
//   - it is sent once: never retried in a way that could execute it twice;
//   - it returns soon after ctx is done, whatever the server does;
//   - it is safe for concurrent use;
//   - its error names the node and contains no password.
//
// A wrapper around a node that is a Rejoiner has to be one too, and forward Join
// and Registers: without them the node stays out after a loss of memory.
type Node interface {
	// String names the node for people: an address or a path, no password.
	String() string

	// Acquire leases r.Name to r.Holder for r.TTL and promises a register larger
	// than every one before, and at least r.Token (the proposal). Granted
	// carries that register. Held if the name is leased, to whomever.
	Acquire(ctx context.Context, r Request) (Answer, error)

	// Confirm raises the register to r.Token while the lease is r.Holder's.
	// Outrun, with the register, if that is larger already; Lost if the lease
	// is not the holder's.
	Confirm(ctx context.Context, r Request) (Answer, error)

	// Extend renews the lease of r.Holder to r.TTL from now, and creates it
	// again if nobody has it and the register is at most r.Token. Granted carries
	// the register. Lost otherwise.
	Extend(ctx context.Context, r Request) (Answer, error)

	// Release removes the lease of r.Holder, nobody else's: Granted, or Lost if
	// it is not there.
	Release(ctx context.Context, r Request) (Answer, error)

	// ForceRelease removes the lease of name, whoever has it, and sets the
	// register to the larger of its successor and floor. It is meant for
	// operators: read Inspect on a majority first, and pass one more than the
	// largest register, or the old holder may repair its lease where it had none.
	ForceRelease(ctx context.Context, name string, floor fence.Token) (Answer, error)

	// Inspect returns the lease of a name and the register of its stripe. A name
	// without a lease has Remaining 0.
	Inspect(ctx context.Context, name string) (Lease, error)

	// List calls yield for every lease until yield returns false. Leases that
	// come or go meanwhile may or may not be listed.
	List(ctx context.Context, yield func(Lease) bool) error

	// Close frees the node's connections. Operations after it return an error; a
	// second Close does nothing.
	Close() error
}

// Request is what an operation is about. Operations ignore fields that their
// comments do not mention.
type Request struct {
	Name   string
	Holder Holder
	TTL    time.Duration // whole milliseconds count; engines round down
	Token  fence.Token
	Place  Place // for a Queuer: see there
}

// Answer is what a node said.
type Answer struct {
	Status   Status
	Register fence.Token // see the operations; 0 where none is carried
	// HeldBy and Remaining describe the lease that refused an acquire: the other
	// holder's label, empty if it is not a fenlock client, and the time the
	// lease has left, 0 if it is not known or has no end.
	HeldBy    string
	Remaining time.Duration
	// Ahead is how many waiters are in line before the one that was refused, all
	// of them if it is not in line itself. 0 if the node keeps no lines.
	Ahead int
	// Clock is what the node's clock shows, from any epoch, in an answer Held of
	// a Queuer. Waiters are put in order by it.
	Clock time.Duration
	// Detail says, for Rejoining, why the node is out and until when.
	Detail string
}

// Starter is a Node whose operations can be begun without a goroutine that waits
// for each of them, so that those that come together can be sent together. A
// Locker then uses Start in place of the operations; a wrapper that changes one
// has to change Start too, or not to have it.
type Starter interface {
	Node
	// Start begins an operation, one of the four that Operation names (the outcome of
	// another one is an error that matches ErrInvalid), and returns without waiting
	// for the server. The rules for the operation hold, except that
	// call.Done takes its outcome. What has not been sent after timeout, or when
	// it is not wanted any more, must not be sent. Requests about one name are
	// carried out in the order of the calls, also where some of them have to wait
	// for a connection: what a connection that was lost left behind is the only
	// exception. A release that overtakes its acquire leaves a lease.
	Start(op Operation, r Request, timeout time.Duration, call Call)
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

// Operation names an operation of a Node that belongs to the life of a lock.
type Operation uint8

// The operations that can be started.
const (
	OpAcquire = Operation(core.Acquire)
	OpConfirm = Operation(core.Confirm)
	OpExtend  = Operation(core.Extend)
	OpRelease = Operation(core.Release)
)

// String returns the operation's name in lower case.
func (o Operation) String() string { return core.Op(o).String() }

// Lease is what an operator sees of a name on one node. The holder's identity
// is left out on purpose: whoever knows it can release the lease.
type Lease struct {
	Name      string
	Label     string // empty for a lease of another Redlock client
	Remaining time.Duration
	Register  fence.Token // of the name's stripe
}

// Status is the kind of an Answer.
type Status uint8

// The answers of a node. An error beside the Answer stands for "unknown".
const (
	Granted   = Status(core.Granted)   // done as asked
	Held      = Status(core.Held)      // acquire: the name is leased
	Outrun    = Status(core.Outrun)    // confirm: the register is larger
	Lost      = Status(core.Lost)      // the lease is not the holder's
	Rejoining = Status(core.Rejoining) // not admitted after a loss of memory
)

// String returns the status in lower case.
func (s Status) String() string { return core.Status(s).String() }

// Stripes is the number of registers of a node. Names share registers, so that
// a node's state stays bounded however many names are ever locked. It is part
// of the format on the nodes: all clients of a group agree on it.
const Stripes = 4096

// Stripe returns the number of the register that serves name: FNV-1a (64 bit)
// of its bytes, modulo Stripes.
func Stripe(name string) int {
	h := fnv.New64a()
	h.Write([]byte(name))
	return int(h.Sum64() % Stripes)
}

// Holder is the identity of one acquisition attempt: 128 random bits in hex,
// a colon, and a label for people. Whoever knows it can release the lease, so
// it is not for display; Label is.
type Holder string

const holderIDLength = 32

// Label returns the readable part, NextInLine if h keeps the name for a waiter,
// or "" if it was not made by this package (a lease of another Redlock client).
func (h Holder) Label() string {
	if rule.IsReserved(string(h)) {
		return NextInLine
	}
	if len(h) <= holderIDLength || h[holderIDLength] != ':' {
		return ""
	}
	if strings.Trim(string(h[:holderIDLength]), "0123456789abcdef") != "" {
		return ""
	}
	return string(h[holderIDLength+1:])
}

// Format keeps the identity out of logs and errors, whatever the verb.
func (h Holder) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "holder(%s)", h.Label()) }

// LogValue does the same for handlers that do not use package fmt.
func (h Holder) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(h)) }

// Queuer is a Node that keeps the waiters for a name in line, in the order of
// their stamps (equal ones: of the waiters' bytes), and calls the one whose turn
// it is. Where a node does not, its waiters poll. Lines decide who tries next,
// never who holds: they are lost with the node's memory, and may be.
//
// To call a waiter is to take it out of the line, to tell it, and to keep the
// name for it, for one second, by a lease that refuses everybody else. A waiter
// that cannot be told, because its process has ended, is dropped and the next
// one is called.
//
// What lines add to the operations, all in the same atomic step (package
// internal/rule has it as code):
//   - Acquire of a name that is kept for r.Place.Waiter is granted, whoever has
//     joined before it since.
//   - Acquire that is refused with Held puts the waiter into the line, unless it
//     is in already or is empty.
//   - Acquire of a name that is free goes by the line, after the asker has joined:
//     if the asker is first, it is granted and leaves the line. Otherwise the
//     first one is called, and the asker is refused.
//   - Release that removed the lease, and ForceRelease, call the first one.
//     With r.Place the Release speaks for that waiter too: it gives up what is
//     kept for it, and calls the next; and it puts it into the line again (its
//     attempt has failed), or takes it out if the stamp is 0 (its wait is over).
//     A waiter that joins again and is the first itself is not called. Without
//     a lease of r.Holder, which may be empty then, the answer is Lost.
//
// A place that is malformed is an error that matches ErrInvalid, and changes
// nothing. A line has at most 10,000 waiters, and is forgotten when no waiter
// has joined or asked again for 15 s.
type Queuer interface {
	Node
	// Listen makes the waiters of a client reachable on this node, until Close:
	// those whose identity is client, a colon and a number. It returns nil once
	// they are, or why they are not by the time that ctx is done; in both cases
	// it goes on in the background, through broken connections too.
	//
	// It calls event with each waiter that is called, and with "" when a call may
	// have been missed: when the waiters have become reachable again, or late.
	// Event returns at once. A Locker calls Listen once; Lockers that share the
	// node are different clients.
	Listen(ctx context.Context, client string, event func(waiter string)) error
}

// NextInLine is the label of a lease that keeps a name for a waiter that was
// called: in Answer.HeldBy and Lease.Label.
const NextInLine = "the next in line"

// Place is a waiter's place in the line of a name.
type Place struct {
	// Waiter is the identity of one wait, the same on all nodes and for all of its
	// attempts: the client's, 32 lower-case hexadecimal digits, then a colon and a
	// number of 1 to 19 digits. Empty is nobody, who is never in line.
	Waiter string
	// Stamp is when the wait began, in microseconds of the nodes' time: the same
	// on all nodes, so that they agree about who is next. At most 2^53.
	Stamp int64
}

// Rejoiner is a Node that can lose its memory while its address stays the same.
// A Locker calls Join once, before any other operation.
type Rejoiner interface {
	Node
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
	Warn func(node Node, message string)
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
