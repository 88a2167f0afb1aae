package fenlock

import (
	"context"
	"errors"

	"github.com/fenlock/fenlock/fence"
)

// Do runs work while it holds the lock of name. It waits for the lock as
// Acquire does. The context that work gets is a child of ctx which also ends
// when the lock is lost or out of validity; context.Cause tells which. The
// token is for the resource that work writes to.
//
// The error is Acquire's, or work's joined with the loss of the lock (ErrLost,
// ErrMaxHold) if it was lost before work returned. A release that no quorum
// answers is logged, not returned: work was done under the lock, and the lease
// ends by itself.
//
// Locks are not reentrant: work that acquires the same name with its context fails at
// once, with ErrNested.
func (l *Locker) Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error,
	opts ...Option) error {
	return do(ctx, l.Acquire, name, work, opts)
}

// acquirer is the Acquire of a Locker, or of Groups.
type acquirer func(ctx context.Context, name string, opts ...Option) (*Lock, error)

func do(ctx context.Context, acquire acquirer, name string, work func(ctx context.Context, token fence.Token) error,
	opts []Option) (err error) {
	lock, err := acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	held, release := hold(ctx, lock)
	// Deferred, so that a panic in work does not keep the lock.
	defer func() {
		if lost := release(); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return work(held, lock.Token())
}

// Lock takes the lock of name as Acquire does, for callers that need no more than this:
//
//	ctx, release, err := locker.Lock(ctx, "orders/42")
//	if err != nil {
//		return err
//	}
//	defer release()
//
// The context is a child of the caller's which also ends when the lock is released, lost or out of
// validity. Release may be called more than once, and from several goroutines: the first call gives
// the lock back, and returns when the nodes have answered. A loss, or a release that no quorum
// answers, is logged. Callers that need the token, or have to know whether the lock was lost, use
// Acquire or Do.
func (l *Locker) Lock(ctx context.Context, name string, opts ...Option) (held context.Context, release func(),
	err error) {
	return lockFor(ctx, l.Acquire, name, opts)
}

func lockFor(ctx context.Context, acquire acquirer, name string, opts []Option) (held context.Context, release func(),
	err error) {
	lock, err := acquire(ctx, name, opts...)
	if err != nil {
		return nil, nil, err
	}
	held, once := hold(ctx, lock)
	return held, func() { once() }, nil
}

// hold returns a child of ctx that ends with the lock, or when that is released, and what
// releases it. That returns ErrLost or ErrMaxHold if the lock was lost, and logs what else may go
// wrong; a second call does nothing.
func hold(ctx context.Context, lock *Lock) (held context.Context, release func() error) {
	held, cancel := context.WithCancelCause(holding(ctx, lock, true))
	unlink := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	return held, func() error {
		unlink()
		released := lock.Release(context.WithoutCancel(ctx))
		cancel(nil)
		switch {
		case errors.Is(released, ErrLost), errors.Is(released, ErrMaxHold):
			return released
		case released != nil && !errors.Is(released, ErrReleased):
			lock.locker.config.Logger.Warn("fenlock: release", "name", lock.name, "error", released)
		}
		return nil
	}
}
