package fenlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Lock is a lock that is, or was, held. It extends itself until it is
// released, lost or held for Config.MaxHold. It is not bound to a goroutine, and
// safe for concurrent use.
type Lock struct {
	locker *Locker
	name   string
	holder node.Holder
	base   context.Context // the acquirer's values, without its end
	waiter *waiter         // whose attempt it is, nil for TryAcquire
	start  time.Duration   // of the attempt

	// ctx is set before the acquirer is told, if the lock was acquired.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// told has room for two: to the acquirer that the attempt is decided, and, once
	// it is held, to whoever releases it that the release is.
	told chan struct{}

	// The fanouts of the acquire and of a release, and room for their calls: nearly
	// all locks have no others.
	acquiring, releasing fanout
	rooms                []room
	released             atomic.Bool // releasing is in use

	ticked int // its place among the Locker's ticks, which guard it

	mu        sync.Mutex // guards the rest; never held across a request
	attempt   core.Attempt
	extension *outcome
	decided   bool
	failure   error // why the lock was never held, once decided
	release   releaseOutcome
	refusals  []core.Refusal
}

// room is what a lock keeps of a node: what it said last, and two calls of any
// nodes.
type room struct {
	said  nodeAnswer
	calls [2]call
}

// nodeAnswer is the last thing that a node said, for the errors.
type nodeAnswer struct {
	op     core.Op
	answer node.Answer
	err    error
}

// outcome is what waits for an extension: err is set before done is closed.
type outcome struct {
	done chan struct{}
	err  error
}

// releaseOutcome is of the first Release.
type releaseOutcome struct {
	begun, ended bool
	err          error
}

// Format prints the name and nothing that the mutex guards, nor the identity of
// the holder, whatever the verb.
func (k *Lock) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "lock(%q)", k.name) }

// Name returns what is locked.
func (k *Lock) Name() string { return k.name }

// Token returns the fencing token of this acquisition: larger than that of every
// acquisition of the same name that finished before this one began. Pass it
// to the resource with each write, and let the resource refuse a smaller one
// than it has seen (package fence).
func (k *Lock) Token() fence.Token {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.attempt.Token()
}

// Context returns a context that is cancelled when the lock is released, lost
// or out of validity, whichever comes first, and before the lease can have
// ended on a majority of nodes. context.Cause then matches ErrReleased, ErrLost
// or ErrMaxHold. It has the values of the context that the lock was acquired
// with, but not its end.
//
// A process that is paused learns of it late, as from every timer. What it
// writes then is for the token to stop.
func (k *Lock) Context() context.Context { return k.ctx }

// Remaining returns the validity left: for how long the lock is held even if no
// further extension succeeds. 0 once it is released or lost. Time during which
// the machine was suspended counts on Linux.
func (k *Lock) Remaining() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.locker.now()
	k.attempt.Tick(now)
	k.settle(now)
	if k.attempt.Phase() != core.Holding {
		return 0
	}
	return k.attempt.Until() - now
}

// Extend renews the lock now, without waiting for the next automatic extension;
// one that is under way ends first. Nil means that the validity was renewed, and
// that nobody else held the lock from its acquisition up to this call.
//
// An error that matches ErrNoQuorum means that the extension failed but the
// lock is still held for Remaining. ErrLost, ErrMaxHold and ErrReleased mean
// that it is not held any more. If ctx ends first, the extension goes on
// without its caller.
func (k *Lock) Extend(ctx context.Context) error {
	if k.locker.requests.isClosed() {
		return ErrClosed
	}
	k.mu.Lock()
	before := k.extension
	k.mu.Unlock()
	// One that is under way proves nothing about what has happened since it began,
	// and starting over would make concurrent callers starve: all that come while
	// one is under way share the next.
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			return fmt.Errorf("fenlock: extend %q: %w", k.name, ctx.Err())
		}
	}
	k.mu.Lock()
	var action core.Action
	if k.extension == nil {
		action = k.startExtend(k.locker.now())
	}
	wait := k.extension
	err := k.endError()
	k.mu.Unlock()
	if err != nil {
		return err
	}
	k.send(action)
	select {
	case <-wait.done:
		return wait.err
	case <-ctx.Done():
		return fmt.Errorf("fenlock: extend %q: %w", k.name, ctx.Err())
	}
}

// Release gives the lock back, on all nodes. The requests go on if ctx ends
// first, for at most Config.NodeTimeout, or two where a node has not answered the
// acquire yet, and Release returns ctx's error. Locker.Close waits for them.
//
// Nil means that a majority of nodes is free of the lease, and that the lock
// was held up to this call. ErrLost or ErrMaxHold: it was not held any more;
// leases that were left are removed. ErrReleased: it was released before.
// ErrNoQuorum: too few nodes answered; the leases there end by themselves
// within a TTL.
func (k *Lock) Release(ctx context.Context) error {
	k.mu.Lock()
	if k.release.begun {
		k.mu.Unlock()
		return fmt.Errorf("%w before: %q", ErrReleased, k.name)
	}
	now := k.locker.now()
	k.attempt.Tick(now)
	lost := k.endError()
	k.release.begun = true
	action := k.attempt.StartRelease(now)
	k.settle(now)
	k.mu.Unlock()
	k.send(action)
	select {
	case <-k.told:
	case <-ctx.Done():
		return errors.Join(lost, fmt.Errorf("fenlock: release %q: %w", k.name, ctx.Err()))
	}
	if lost != nil {
		return lost
	}
	return k.release.err
}

// outcome returns what the acquisition came to. The attempt is decided.
func (k *Lock) outcome() (*Lock, []core.Refusal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure != nil {
		return nil, k.refusals, k.failure
	}
	return k, nil, nil
}

// failed says why the lock was not acquired. It is called when that is decided:
// the answers to the releases that follow replace those that tell.
func (k *Lock) failed() error {
	switch k.attempt.Reason() {
	case core.Contended:
		return k.heldError()
	case core.Cancelled:
		return errCancelled
	case core.TooLate:
		e := k.quorumError(core.Acquire)
		e.Late = true
		return e
	}
	return k.quorumError(core.Acquire)
}

// heldError describes the leases that refused: the label that most nodes
// report, and the longest remaining time. A node that keeps the name for the next
// in line counts only where no node tells of a holder: it may lag behind.
func (k *Lock) heldError() *HeldError {
	e := &HeldError{Name: k.name}
	count, most := make(map[string]int), 0
	var ahead []int
	for i := range k.rooms {
		a := k.rooms[i].said
		if a.err != nil || a.answer.Status != node.Held {
			continue
		}
		e.RetryAfter = max(e.RetryAfter, a.answer.Remaining)
		ahead = append(ahead, a.answer.Ahead)
		switch label := a.answer.HeldBy; {
		case label == "":
		case label == node.NextInQueue:
			e.HeldBy = cmp.Or(e.HeldBy, label)
		default:
			count[label]++
			if count[label] > most {
				e.HeldBy, most = label, count[label]
			}
		}
	}
	e.Ahead = core.Ahead(ahead)
	return e
}

// said is what the nodes answered to the acquire, for the waiter's turn.
func (k *Lock) said() []core.Refusal {
	said := make([]core.Refusal, len(k.rooms))
	for i := range k.rooms {
		if a := k.rooms[i].said; a.op == core.Acquire && a.err == nil {
			said[i] = core.Refusal{Status: core.Status(a.answer.Status), Remaining: a.answer.Remaining, Ahead: a.answer.Ahead}
		}
	}
	return said
}

// quorumError lists the nodes that gave no answer to op that counts. A confirm
// is a part of acquiring.
func (k *Lock) quorumError(op core.Op) *QuorumError {
	n := len(k.rooms)
	e := &QuorumError{Op: op.String(), Name: k.name, Nodes: n, Need: core.Quorum(n)}
	for i := range k.rooms {
		a := k.rooms[i].said
		if a.op != op && !(a.op == core.Confirm && op == core.Acquire) {
			continue // an older answer
		}
		err := a.err
		if err == nil {
			err = refusal(op, a.answer)
		}
		if err != nil {
			e.Errors = append(e.Errors, NodeError{Node: k.locker.config.Nodes[i].String(), Err: err})
		}
	}
	return e
}

// refusal says what a node that answered lacks, nil if it did what was asked.
func refusal(op core.Op, a node.Answer) error {
	switch {
	case a.Status == node.Rejoining:
		return fmt.Errorf("rejoining: %s", a.Detail)
	case a.Status == node.Lost && op != core.Release:
		return errors.New("it does not have the lease any more")
	case a.Status == node.Held, a.Status == node.Outrun:
		return errors.New("another acquirer has it")
	}
	return nil
}

// endError says why the lock is not held any more, nil while it is.
func (k *Lock) endError() error {
	switch k.attempt.Reason() {
	case core.Expired:
		return fmt.Errorf("%w: %q: its validity ran out before an extension succeeded%s", ErrLost, k.name, k.troubles())
	case core.Taken:
		return fmt.Errorf("%w: %q: a majority of nodes does not have its lease any more", ErrLost, k.name)
	case core.HeldTooLong:
		return fmt.Errorf("%w: %q: %v", ErrMaxHold, k.name, k.locker.config.MaxHold)
	case core.LetGo:
		return releasedError{k}
	}
	return nil
}

// releasedError is ErrReleased with the name: one for each lock, so it is not
// formatted before somebody wants to read it.
type releasedError struct{ lock *Lock }

func (e releasedError) Error() string { return fmt.Sprintf("%v: %q", ErrReleased, e.lock.name) }

func (e releasedError) Unwrap() error { return ErrReleased }

// troubles lists what nodes said last, as text: a lost lock must not match
// ErrNoQuorum, which means that nothing is known.
func (k *Lock) troubles() string {
	e := k.quorumError(core.Extend)
	s := ""
	for _, n := range e.Errors {
		s += "; " + n.String()
	}
	return s
}
