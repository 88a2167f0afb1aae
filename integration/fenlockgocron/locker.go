package fenlockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/leader"
)

// ErrNotHeld: what Work returned was run without the lock of its name. The job has another name
// (gocron.WithName), or its scheduler has no Locker, or an Elector as well.
var ErrNotHeld = errors.New("fenlockgocron: the job runs without its lock")

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	TryAcquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
	leader.Locker
}

// Locker is a gocron.Locker, for any number of jobs and schedulers. It is safe for concurrent
// use.
type Locker struct {
	locks Locks
	opts  []fenlock.Option

	mu   sync.Mutex
	held []*held // by those whose work has not begun
}

// NewLocker returns a Locker that keeps each lock for minHold at least, counted from when a job
// begins to run. fenlock.WithMinHold says what bounds it. Jobs that need another one have a Locker
// of their own, by gocron.WithDistributedJobLocker. The options are for each lock. The error
// matches fenlock.ErrInvalid.
func NewLocker(locks Locks, minHold time.Duration, opts ...fenlock.Option) (*Locker, error) {
	opts = append([]fenlock.Option{fenlock.WithMinHold(minHold)}, opts...)
	if err := check(locks, "gocron", opts); err != nil {
		return nil, err
	}
	return &Locker{locks: locks, opts: opts}, nil
}

// check refuses what every run would be skipped for, without a word.
func check(locks Locks, name string, opts []fenlock.Option) error {
	if locks == nil {
		return fmt.Errorf("%w: fenlockgocron needs a Locker or Groups, not nil", fenlock.ErrInvalid)
	}
	return locks.Check(name, opts...)
}

// Lock implements gocron.Locker. It does not wait: the error matches fenlock.ErrHeld if another
// host runs the job, or did less than the minimum hold ago.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.locks.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &held{l, ctx, lock}
	l.held = append(l.held, h)
	return h, nil
}

// begin returns the lock of a run that begins, once: if it is lost, and another run has begun, the
// two have not the same. Both may be there by then, of one job or of two that have one name. Each
// job has a context, which it passes to Lock and to its function, unless that has another one as
// its argument.
func (l *Locker) begin(ctx context.Context, key string) *fenlock.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	named := func(h *held) bool { return h.lock.Name() == key }
	i := slices.IndexFunc(l.held, func(h *held) bool { return named(h) && h.ctx == ctx })
	if i < 0 {
		i = slices.IndexFunc(l.held, named)
	}
	if i < 0 {
		return nil
	}
	lock := l.held[i].lock
	l.held = slices.Delete(l.held, i, i+1)
	return lock
}

// end is for a run whose work may not have begun.
func (l *Locker) end(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(other *held) bool { return other == h })
}

// held is the lock of one run. It implements gocron.Lock.
type held struct {
	locker *Locker
	ctx    context.Context // of the job
	lock   *fenlock.Lock
}

// Unlock goes on when the scheduler was shut down, which ends ctx: Release takes two node timeouts
// at most.
func (h *held) Unlock(ctx context.Context) error {
	h.locker.end(h)
	return h.lock.Release(context.WithoutCancel(ctx))
}

// Work returns a function for gocron.NewTask that runs work under the lock of the job, which has
// that name (gocron.WithName). The context that work gets is a child of the job's, which also ends
// when the lock is lost or out of validity. The token is for what work writes to.
//
// The function's error is work's, joined with the loss of the lock (fenlock.ErrLost,
// fenlock.ErrMaxHold); or ErrNotHeld, and then work was not run, as it is not if the lock was lost
// before.
func (l *Locker) Work(name string,
	work func(ctx context.Context, token fence.Token) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if work == nil {
			return errNoWork
		}
		lock := l.begin(ctx, name)
		if lock == nil {
			return fmt.Errorf("%w: %q (is that its gocron.WithName, and has its scheduler this Locker, and no Elector?)",
				ErrNotHeld, name)
		}
		return under(ctx, lock.Context(), func(ctx context.Context) error { return work(ctx, lock.Token()) })
	}
}

var errNoWork = fmt.Errorf("%w: the function given to Work is nil", fenlock.ErrInvalid)

// under runs work with a child of ctx that also ends with the lock, and joins its error with the
// loss.
func under(ctx, lock context.Context, work func(ctx context.Context) error) error {
	if lock.Err() != nil { // since gocron took it: a listener of its has taken long, or the machine was suspended
		return context.Cause(lock)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlink := context.AfterFunc(lock, func() { cancel(context.Cause(lock)) })
	defer unlink()
	err := work(ctx)
	if lost := context.Cause(lock); errors.Is(lost, fenlock.ErrLost) || errors.Is(lost, fenlock.ErrMaxHold) {
		err = errors.Join(err, lost)
	}
	return err
}
