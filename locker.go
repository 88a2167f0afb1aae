package fenlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/clock"
)

// Locker takes locks on one quorum group. Make one per group and process, with
// New, and share it: it is safe for concurrent use.
type Locker struct {
	config  Config
	queues  queues
	lines   *lines               // nil if no node keeps lines
	starts  core.Set             // the nodes that are Starters
	ordered core.Set             // those that keep the order
	now     func() time.Duration // monotonic, suspended time included

	// seen is the largest register that any node ever showed, for proposals.
	seen atomic.Uint64

	requests  requests
	deadlines deadlines
	ticks     ticks
}

// New makes a Locker. It sends nothing: a node that is down now is no reason to
// fail. The error matches ErrInvalid; nodes that were part of a New that failed
// have to be opened again, because some of them may have been joined to the
// group that is not to be.
func New(config Config) (*Locker, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Locker{config: config, now: clock.Now}
	l.requests.idle = sync.NewCond(&l.requests.mu)
	l.requests.closing = make(chan struct{})
	l.lines = newLines(l)
	l.deadlines.timeout = config.NodeTimeout
	l.ticks.locker, l.ticks.ahead = l, config.TTL/400
	for i, member := range config.Nodes {
		if _, ok := member.(node.Starter); ok {
			l.starts = l.starts.With(i)
		}
		if o, ok := member.(node.Ordered); ok && o.InOrder() {
			l.ordered = l.ordered.With(i)
		}
	}
	group := node.Group{Nodes: config.Nodes, MaxTTL: config.MaxTTL, Warn: func(member node.Node, message string) {
		config.Logger.Warn(message, "node", member.String())
	}}
	for _, member := range config.Nodes {
		if r, ok := member.Engine().(node.Rejoiner); ok {
			if err := r.Join(group); err != nil {
				return nil, fmt.Errorf("%w: node %s: %w", ErrInvalid, member, err)
			}
		}
	}
	if n := len(config.Nodes); n%2 == 0 {
		config.Logger.Warn(fmt.Sprintf("fenlock: an even number of nodes: %d nodes work while %d answer, so they survive the loss of %d, as %d do",
			n, core.Quorum(n), n-core.Quorum(n), n-1))
	}
	return l, nil
}

// TryAcquire takes the lock if it is free, in one attempt: a round trip to all
// nodes at once, sometimes two. It never waits for another holder.
//
// The error matches ErrHeld, ErrNoQuorum, ErrInvalid, ErrClosed or ctx's own;
// in every case nothing is held, and what some nodes may have granted is being
// released.
func (l *Locker) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	lock, _, err := l.attempt(ctx, name, nil)
	if errors.Is(err, errCancelled) {
		return nil, gaveUp(ctx, name, nil)
	}
	return lock, err
}

// Acquire takes the lock, and waits until it is free, or until enough nodes
// answer, or until ctx is done. It returns at once if waiting cannot help: on an
// invalid name, and when too many nodes are misconfigured for a quorum.
//
// Waiters stand in line, first come first served: in this process in memory, on
// the nodes if they are Queuers, by the nodes' clocks. One that does not take
// the lock within a second of its turn, because its process is stopped or cut
// off, is passed over; it keeps its place for when it is back.
//
// Where nodes are not Queuers, or cannot call (the Logger is told), waiters try
// again after a random delay, in no order. Beside others that stand in line they
// may never find the lock free.
//
// When ctx is done, the waiter leaves the lines, and the error matches ctx's own
// error and, if an attempt was made, the reason why the last one failed:
// ErrHeld or ErrNoQuorum.
func (l *Locker) Acquire(ctx context.Context, name string) (lock *Lock, err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	w := newWaiter(ctx, l, name)
	l.queues.enter(w)
	defer func() { w.end(lock) }()
	switch err := w.awaitFirst(ctx); {
	case errors.Is(err, ErrClosed):
		return nil, err
	case err != nil:
		return nil, gaveUp(ctx, name, l.queues.reason(w))
	}
	var last error
	for {
		lock, said, err := l.attempt(ctx, name, w)
		if err == nil {
			return lock, nil
		}
		var q *QuorumError
		switch {
		case errors.Is(err, errCancelled):
			return nil, gaveUp(ctx, name, last)
		case errors.Is(err, ErrClosed), errors.As(err, &q) && q.Permanent():
			return nil, err
		}
		last = err
		l.queues.tell(w, err)
		switch err := w.wait(said); {
		case errors.Is(err, ErrClosed):
			return nil, err
		case err != nil:
			return nil, gaveUp(ctx, name, last)
		}
	}
}

// Do runs work while it holds the lock of name. It waits for the lock as
// Acquire does. The context that work gets is a child of ctx which also ends
// when the lock is lost or out of validity; context.Cause tells which. The
// token is for the resource that work writes to.
//
// The error is Acquire's, or work's joined with the loss of the lock (ErrLost,
// ErrMaxHold) if it was lost before work returned. A release that no quorum
// answers is logged, not returned: work was done under the lock, and the lease
// ends by itself.
func (l *Locker) Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error) (err error) {
	lock, err := l.Acquire(ctx, name)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	// Deferred, so that a panic in work does not keep the lock.
	defer func() {
		unlink()
		released := lock.Release(context.WithoutCancel(ctx))
		cancel(nil)
		switch {
		case errors.Is(released, ErrLost), errors.Is(released, ErrMaxHold):
			err = errors.Join(err, released)
		case released != nil:
			l.config.Logger.Warn("fenlock: release", "name", name, "error", released)
		}
	}()
	return work(inner, lock.Token())
}

// Close waits until the requests under way have ended, those that clean up
// after a failed attempt included (about two node timeouts at most), and closes
// the nodes, also those that another Locker shares. Locks that are still held
// are not released: they end with their leases. Operations after Close fail with
// ErrClosed; a second Close does nothing.
func (l *Locker) Close() error {
	l.requests.close()
	var errs []error
	for _, n := range l.config.Nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// errCancelled marks an attempt that ended because its context did.
var errCancelled = errors.New("cancelled")

// attempt makes one attempt and waits for its outcome. The waiter is nil for an
// attempt that is not to be followed by another one; otherwise the nodes'
// refusals are returned.
func (l *Locker) attempt(ctx context.Context, name string, w *waiter) (*Lock, []core.Refusal, error) {
	if ctx.Err() != nil {
		return nil, nil, errCancelled
	}
	if l.requests.isClosed() {
		return nil, nil, ErrClosed
	}
	start := l.now()
	if w != nil {
		w.begin(start)
	}
	var lock *Lock
	if w == nil || w.lock.locker != nil {
		lock = new(Lock)
	} else {
		lock = &w.lock
	}
	lock.locker, lock.name, lock.holder, lock.waiter = l, name, newHolder(l.config.Label), w
	lock.base, lock.start = ctx, start
	lock.rooms, lock.told = make([]room, len(l.config.Nodes)), make(chan struct{}, 2)
	if ctx.Done() != nil {
		lock.base = context.WithoutCancel(ctx)
	}
	lock.mu.Lock()
	attempt, action := core.NewAttempt(core.Params{
		Nodes:    len(l.config.Nodes),
		TTL:      l.config.TTL,
		MaxHold:  max(l.config.MaxHold, 0),
		Start:    start,
		Proposal: core.Proposal(time.Now().UnixMicro(), fence.Token(l.seen.Load())),
		Ordered:  l.ordered,
	})
	lock.attempt = attempt
	lock.mu.Unlock()
	lock.send(action)

	select {
	case <-lock.told:
	case <-ctx.Done():
		lock.mu.Lock()
		action := lock.attempt.Cancel()
		lock.settle(l.now())
		lock.mu.Unlock()
		lock.send(action)
		<-lock.told // it may have been acquired just before
	}
	return lock.outcome()
}

// observe remembers the largest register seen.
func (l *Locker) observe(token fence.Token) {
	for {
		seen := l.seen.Load()
		if uint64(token) <= seen || l.seen.CompareAndSwap(seen, uint64(token)) {
			return
		}
	}
}

func newHolder(label string) node.Holder {
	id := newID()
	return node.Holder(string(id[:]) + ":" + label)
}

// newID returns 128 random bits, in hexadecimal digits.
func newID() (id [node.IDLength]byte) {
	var bits [node.IDLength / 2]byte
	rand.Read(bits[:]) // never fails: crypto/rand ends the program instead
	hex.Encode(id[:], bits[:])
	return id
}

// gaveUp is the error for a context that ended, joined with the last reason.
func gaveUp(ctx context.Context, name string, last error) error {
	why := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, why) {
		why = fmt.Errorf("%w (%w)", why, cause)
	}
	if last == nil {
		return fmt.Errorf("fenlock: acquire %q: %w", name, why)
	}
	return fmt.Errorf("fenlock: gave up waiting for %q: %w: %w", name, why, last)
}

// requests counts what is under way to the nodes, so that Close can wait. Those
// of a fanout count as one.
type requests struct {
	mu     sync.Mutex
	idle   *sync.Cond
	n      int
	closed bool

	closing chan struct{} // closed when closed is set
}

// begin counts n more. They are made even after close: cleaning up is
// always allowed, and the nodes refuse when they are closed.
func (r *requests) begin(n int) {
	r.mu.Lock()
	r.n += n
	r.mu.Unlock()
}

func (r *requests) end() {
	r.mu.Lock()
	r.n--
	if r.n == 0 {
		r.idle.Broadcast()
	}
	r.mu.Unlock()
}

func (r *requests) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *requests) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		close(r.closing)
	}
	r.closed = true
	for r.n > 0 {
		r.idle.Wait()
	}
}
