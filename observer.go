package fenlock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Observer is told what happens to the callers of a Locker, to its locks and to its nodes, for
// logs, metrics and traces. Each field may be nil, and costs nothing then. Waiting, Request and
// Node are called from many goroutines at once; the others one at a time, in the order in which it
// happened, a moment later. Acquisitions and releases are told in the goroutine of a caller,
// everything else in one of the Locker's. The functions must return soon, and may panic only if
// callers may. Ctx is the one that was passed to Acquire, which may have ended by then. Close waits
// until all were told. Durations are by Go's monotonic clock, but for the validity: on Linux that
// clock does not count time for which the machine was suspended. JoinObservers makes one Observer
// of several.
//
// What a guard refuses, package fence's for example, its own field Refused is told.
type Observer struct {
	// Acquire is called when an acquisition has ended, with the lock or without. It hears
	// nothing of a name or a context that was refused before anything was sent.
	Acquire func(ctx context.Context, e AcquireEvent)
	// Wait is called when an Acquire begins to wait: once, before the Acquire that has
	// Waited then.
	Wait func(ctx context.Context, name string)
	// Extend is called when an extension has ended: each third of a TTL of each lock, and
	// more often where something fails.
	Extend func(ctx context.Context, e ExtendEvent)
	// Lost is called when a lock ends that was not released.
	Lost func(ctx context.Context, e LostEvent)
	// Release is called when a release has ended, of a lost lock too.
	Release func(ctx context.Context, e ReleaseEvent)
	// Request is called for each request to a node, by the goroutine that has its answer: others
	// may be waiting for that.
	Request func(e RequestEvent)

	// Waiting is called when an Acquire begins to wait, and again when the reason
	// changes: another holder, or another number of waiters ahead. Ctx is the
	// one that was passed to Acquire. Why is a *HeldError or a *QuorumError, the
	// newest if there were several since the last call. It is called in the goroutine of
	// Acquire, which waits for it, even if it has the lock by then.
	Waiting func(ctx context.Context, name string, why error)

	// Node is called when a node stops working, when it fails in another way, and when it works
	// again. It is called once for each change, and in order for one node. A node of which nothing
	// was told works, or has not been asked for anything yet: nothing is sent to find out. One that
	// comes and goes is told of at most once a minute after the first few times. Close waits until
	// it has returned. The Logger hears the same.
	Node func(change NodeChange)
}

// AcquireEvent is the end of an Acquire, a TryAcquire or a Do's.
type AcquireEvent struct {
	Name  string
	Token fence.Token   // 0 if the lock was not acquired
	Took  time.Duration // from the call on, waiting included
	// Waited reports that it was refused at first, and tried again.
	Waited bool
	Err    error // what the caller got; nil if the lock was acquired
}

// Outcome says in a word what came of it, for a metric: "acquired"; "held", if another client had
// the lock until the caller's deadline; "no_quorum", if nodes did not answer until then;
// "cancelled", if the caller gave up, or its deadline left no time for an attempt; or "error".
func (e AcquireEvent) Outcome() string {
	var held *HeldError
	var quorum *QuorumError
	switch e.Err.(type) {
	case nil:
		return "acquired"
	case *HeldError:
		return "held"
	case *QuorumError: // its nodes' errors may match anything
		return "no_quorum"
	}
	switch {
	case errors.Is(e.Err, context.Canceled):
		return "cancelled"
	case errors.As(e.Err, &held):
		return "held"
	case errors.As(e.Err, &quorum):
		return "no_quorum"
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "cancelled"
	}
	return "error"
}

// ExtendEvent is the end of an extension, by itself or by Lock.Extend.
type ExtendEvent struct {
	Name  string
	Token fence.Token
	Left  time.Duration // the validity; 0 if the lock is not held any more
	Err   error         // ErrNoQuorum: it failed, and the lock is still held; nil if it was extended
}

// Outcome says in a word what came of it, for a metric: "extended"; "no_quorum", if too few nodes
// answered in time, so that it is repeated; or "ended", if the lock is not held any more. What
// nodes accept later still counts: then "extended" follows "no_quorum", with less left than usual.
func (e ExtendEvent) Outcome() string {
	var quorum *QuorumError
	switch {
	case e.Err == nil:
		return "extended"
	case errors.As(e.Err, &quorum) && e.Left > 0:
		return "no_quorum"
	}
	return "ended"
}

// LostEvent is the end of a lock that was not released.
type LostEvent struct {
	Name  string
	Token fence.Token
	Held  time.Duration // since it was acquired
	Err   error         // matches ErrLost or ErrMaxHold
}

// Cause is "lost" or "max_hold".
func (e LostEvent) Cause() string {
	if errors.Is(e.Err, ErrMaxHold) {
		return "max_hold"
	}
	return "lost"
}

// ReleaseEvent is the end of a Lock.Release, a Do's or a Lock.Export that has worked.
type ReleaseEvent struct {
	Name  string
	Token fence.Token
	Held  time.Duration // from the acquisition to the call, or to the loss
	Left  time.Duration // the validity when it was called; 0 if the lock was lost before
	// Given tells that a release had given the lock to its waiter, and that it was not extended
	// yet. Left is then of the second that such a lock has at first, and says nothing about
	// extensions.
	Given bool
	Err   error // as Lock.Release has it, without the caller's context; nil if it was released
}

// Lost reports that the lock had been lost before, which a LostEvent has told.
func (e ReleaseEvent) Lost() bool { return errors.Is(e.Err, ErrLost) || errors.Is(e.Err, ErrMaxHold) }

// RequestEvent is one request to a node that was answered, or whose time is up.
type RequestEvent struct {
	Node string // as Node.String has it
	Op   string // "acquire", "confirm", "extend" or "release"
	Took time.Duration
	// Status is what the node answered: node.Unknown if it did not, and then Err says why.
	Status node.Status
	Err    error
}

// NodeChange says how a node does from now on, as far as its answers tell.
type NodeChange struct {
	Node  string // as Node.String has it
	State NodeState
	// Err is why, nil if it works. It matches what the node's error matches:
	// ErrMisconfigured, for example.
	Err error
}

// NodeState is how a node does.
type NodeState uint8

// The states of a node. All but the first are those of a node whose vote does not count.
const (
	NodeWorks         NodeState = iota // it answers in time
	NodeDown                           // no answer, or an error that passes
	NodeLate                           // its answers come after the node timeout
	NodeOut                            // it is not admitted: it may have lost its memory
	NodeMisconfigured                  // its configuration has to be changed: ErrMisconfigured
)

// String returns the state in words that follow "the node".
func (s NodeState) String() string {
	names := [...]string{"works", "is down", "is late", "is out", "is misconfigured"}
	if int(s) < len(names) {
		return names[s]
	}
	return "is in no known state"
}

// String says it in one line, with the node's name once.
func (c NodeChange) String() string {
	if c.Err == nil {
		return "node " + c.Node + " " + c.State.String() + " again"
	}
	return "node " + c.Node + " " + c.State.String() + ": " + c.reason()
}

// reason is the error without what the name and the state of the node say already.
func (c NodeChange) reason() string {
	text := strings.TrimPrefix(c.Err.Error(), c.Node+": ")
	if c.State == NodeMisconfigured {
		text = strings.TrimPrefix(text, ErrMisconfigured.Error()+": ")
	}
	return text
}

// JoinObservers returns an Observer that tells each of several what it hears, in the order
// given: a program's own and one for metrics, for example. What none of them listens to
// costs nothing.
func JoinObservers(observers ...Observer) (joined Observer) {
	for _, o := range observers {
		joined = Observer{
			Acquire: both(joined.Acquire, o.Acquire),
			Wait:    both(joined.Wait, o.Wait),
			Extend:  both(joined.Extend, o.Extend),
			Lost:    both(joined.Lost, o.Lost),
			Release: both(joined.Release, o.Release),
			Request: noContext(joined.Request, o.Request),
			Waiting: waiting(joined.Waiting, o.Waiting),
			Node:    noContext(joined.Node, o.Node),
		}
	}
	return joined
}

func both[E any](first, second func(context.Context, E)) func(context.Context, E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e E) {
		first(ctx, e)
		second(ctx, e)
	}
}

func noContext[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e E) {
		first(e)
		second(e)
	}
}

func waiting(first, second func(context.Context, string, error)) func(context.Context, string, error) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, name string, err error) {
		first(ctx, name, err)
		second(ctx, name, err)
	}
}
