package fenlock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
)

// What an operation failed with, for errors.Is. An error that matches none of
// them, nor the context's own, does not come from the lock.
var (
	// ErrHeld: a majority of the nodes answered, and another client has the lock (or two acquirers
	// met, and neither got a majority). *HeldError has details.
	ErrHeld = errors.New("fenlock: the lock is held")

	// ErrNoQuorum: too few nodes gave an answer. Nothing is known about who holds
	// the lock. *QuorumError has the error of each node.
	ErrNoQuorum = errors.New("fenlock: no quorum of nodes")

	// ErrLost: the lock was held and is not any more, although it was not released. Its validity
	// ran out, or a majority of nodes gave the lease up. Another client may hold it.
	ErrLost = errors.New("fenlock: the lock was lost")

	// ErrMaxHold: the lock was held for its maximum (Config.MaxHold) and is no longer extended.
	ErrMaxHold = errors.New("fenlock: the lock was held for the maximum time")

	// ErrSlots: the clients that have a slot use another number of slots. The text has both
	// numbers.
	ErrSlots = errors.New("fenlock: the number of slots differs")

	// ErrReleased: the lock was released by its holder.
	ErrReleased = errors.New("fenlock: the lock was released")

	// ErrExported: the lock was exported (Lock.Export), for another process to go on with.
	ErrExported = errors.New("fenlock: the lock was exported")

	// ErrNested: the caller's own call chain holds the lock, and would wait for itself. Its context
	// is from a Do, a Locker.Lock, or Context of a lock, of that name and on the same nodes. The
	// error matches ErrHeld too.
	ErrNested = errors.New("fenlock: held by the caller itself")

	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("fenlock: the locker is closed")

	// ErrInvalid: a name, a configuration or another argument cannot be used.
	// Nothing was sent to any node.
	ErrInvalid = node.ErrInvalid

	// ErrMisconfigured marks the error of a node that will not work until its configuration, or the
	// client's, is changed. Examples are a wrong password, a replica, an evicting maxmemory policy.
	// Waiting does not help, so Acquire does not wait for a quorum that such nodes deny.
	ErrMisconfigured = node.ErrMisconfigured
)

// HeldError is the error for a lock that another client holds. It matches ErrHeld.
type HeldError struct {
	Name string
	// HeldBy is the label of the holder as the nodes know it. It is empty if no
	// node told (two acquirers met), or if the holder is another Redlock client.
	HeldBy string
	// RetryAfter is when the lease ends unless it is extended, from now on. 0
	// if it is not known.
	RetryAfter time.Duration
	// Ahead is how many waiters are before the caller. After TryAcquire the caller is in no queue:
	// then it is all of them. 0 where nodes keep no queues.
	Ahead int
}

// Error says who holds the lock and for how long at most, if it is not extended.
func (e *HeldError) Error() string {
	b := fmt.Sprintf("fenlock: %q is held", e.Name)
	if e.HeldBy != "" {
		b += fmt.Sprintf(" by %s", e.HeldBy)
	}
	if e.RetryAfter > 0 {
		b += fmt.Sprintf(" (its lease ends in %v unless extended)", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Ahead > 0 {
		b += fmt.Sprintf(", %d ahead in the queue", e.Ahead)
	}
	return b
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// QuorumError is the error for an operation that too few nodes answered, or
// answered too late. It matches ErrNoQuorum, and whatever its nodes' errors match.
type QuorumError struct {
	Op    string // "acquire", "adopt", "extend", "release", "inspect", "list" or "force release"
	Name  string
	Nodes int // N
	Need  int // the quorum
	// Late: a majority granted, but the validity was used up by then. The TTL is
	// too short for these nodes, or this process was paused.
	Late   bool
	Errors []NodeError // of the nodes that failed, at most one each
}

// NodeError is one node's part of a QuorumError.
type NodeError struct {
	Node string // as Node.String has it
	Err  error
}

// Error lists what each failed node said. One node alone is no quorum to speak of: what it said is
// the reason.
func (e *QuorumError) Error() string {
	if e.Nodes == 1 && len(e.Errors) == 1 && !e.Late {
		return fmt.Sprintf("fenlock: %s %q: %v", e.Op, e.Name, e.Errors[0])
	}
	text := fmt.Sprintf("fenlock: %s %q: no quorum: %d of %d nodes are missing, %d are needed", e.Op, e.Name,
		len(e.Errors), e.Nodes, e.Need)
	if e.Late {
		text = fmt.Sprintf("fenlock: %s %q: the nodes answered, but not before the lease's validity was used up", e.Op,
			e.Name)
	}
	return text + listed(e.Errors)
}

// listed is what nodes said, behind something else.
func listed(nodes []NodeError) (text string) {
	for _, n := range nodes {
		text += "; " + n.String()
	}
	return text
}

// String returns the error with the node's name, once: most engines' errors
// begin with it.
func (n NodeError) String() string {
	text := n.Err.Error()
	if strings.Contains(text, n.Node+":") {
		return text
	}
	return n.Node + ": " + text
}

// Is makes errors.Is(err, ErrNoQuorum) true.
func (e *QuorumError) Is(target error) bool { return target == ErrNoQuorum }

// Unwrap returns the nodes' errors.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, len(e.Errors))
	for i, n := range e.Errors {
		errs[i] = n.Err
	}
	return errs
}

// Permanent reports whether waiting cannot help: so many nodes are misconfigured
// that the others are no quorum.
func (e *QuorumError) Permanent() bool {
	broken := 0
	for _, n := range e.Errors {
		if node.Permanent(n.Err) {
			broken++
		}
	}
	return e.Nodes-broken < e.Need
}
