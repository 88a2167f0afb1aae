// Package fenlockgoose has goose apply the migrations of a database from one process at a time,
// whatever the database is.
//
//	migrations, err := fenlockgoose.New(locker, "migrations/orders")
//	...
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(migrations))
//	...
//	ctx, cancel := migrations.Context(ctx) // ends when the lock is lost
//	defer cancel()
//	results, err := provider.Up(ctx)
//	if errors.Is(err, fenlock.ErrLost) {
//		// another process may have gone on: look before the next attempt
//	}
//
// The name is for the database: all processes that migrate it need the same.
//
// The second instance waits, and finds nothing to do. The wait ends with the context given to
// goose, and with the option fenlock.WithWait; without either it takes as long as the other's
// migrations. The error then matches context.DeadlineExceeded and fenlock.ErrHeld.
//
// # When the lock is lost
//
// goose hears of a loss when it unlocks: the error of provider.Up, and of the others, then matches
// fenlock.ErrLost, after the migrations were applied. With the context of Locker.Context they
// end with the lock, and a transaction is rolled back.
//
// A lock is held for as long as migrations take: fenlock.WithMaxHold is unbounded here, unless an
// option says otherwise. Whatever does not lock in goose (Provider.HasPending, GetVersions, Status)
// does not lock here.
package fenlockgoose

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/fenlock/fenlock"
)

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.SessionLocker = (*Locker)(nil)
)

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
}

// Locker is for goose.WithLocker; or for goose.WithSessionLocker, of which it ignores the session.
// goose takes one of the two. It is safe for concurrent use: in one process, too, one has it at a
// time.
type Locker struct {
	locks Locks
	name  string
	opts  []fenlock.Option

	mu     sync.Mutex
	held   *fenlock.Lock
	unlink func() bool // the context of Context from the lock
}

// New returns a Locker of that name. The options are for the lock. The error matches
// fenlock.ErrInvalid.
func New(locks Locks, name string, opts ...fenlock.Option) (*Locker, error) {
	if locks == nil {
		return nil, fmt.Errorf("%w: fenlockgoose needs a Locker or Groups, not nil", fenlock.ErrInvalid)
	}
	opts = append([]fenlock.Option{fenlock.WithMaxHold(-1)}, opts...)
	if err := locks.Check(name, opts...); err != nil {
		return nil, err
	}
	return &Locker{locks: locks, name: name, opts: opts}, nil
}

type contextKey struct{ locker *Locker }

// Context returns a child of ctx for the methods of a goose.Provider, which also ends when they
// lose the lock. Then context.Cause matches fenlock.ErrLost or fenlock.ErrMaxHold. One is for one
// provider.
func (l *Locker) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, contextKey{l}, cancel), func() { cancel(nil) }
}

// Lock implements lock.Locker. It waits until the lock is free, or ctx is done. If this Locker has
// lost the lock, and is not unlocked yet, the error matches fenlock.ErrHeld at once.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error { return l.lock(ctx) }

// SessionLock implements lock.SessionLocker, as Lock does.
func (l *Locker) SessionLock(ctx context.Context, _ *sql.Conn) error { return l.lock(ctx) }

// Unlock implements lock.Locker. The error is the loss of the lock, which matches fenlock.ErrLost
// or fenlock.ErrMaxHold. A release that too few nodes answer is none, as the lease ends by itself:
// fenlock.Observer hears of it.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error { return l.unlock(ctx) }

// SessionUnlock implements lock.SessionLocker, as Unlock does.
func (l *Locker) SessionUnlock(ctx context.Context, _ *sql.Conn) error { return l.unlock(ctx) }

func (l *Locker) lock(ctx context.Context) error {
	held, err := l.locks.Acquire(ctx, l.name, l.opts...)
	if err != nil {
		return err
	}
	if !l.take(ctx, held) { // what was lost is not unlocked, and its Unlock would release this one
		held.Release(context.WithoutCancel(ctx))
		return fmt.Errorf("%w: %q: this Locker has lost it, and what it was for goes on", fenlock.ErrHeld, l.name)
	}
	return nil
}

// take has Unlock release a lock, if there is no other one for it to release.
func (l *Locker) take(ctx context.Context, held *fenlock.Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return false
	}
	l.held, l.unlink = held, func() bool { return true }
	if cancel, ok := ctx.Value(contextKey{l}).(context.CancelCauseFunc); ok {
		l.unlink = context.AfterFunc(held.Context(), func() { cancel(context.Cause(held.Context())) })
	}
	return true
}

func (l *Locker) unlock(ctx context.Context) error {
	l.mu.Lock()
	held, unlink := l.held, l.unlink
	l.held = nil // before the next one can have it
	l.mu.Unlock()
	if held == nil {
		return fmt.Errorf("%w: %q is not locked", fenlock.ErrReleased, l.name)
	}
	unlink()
	err := held.Release(ctx)
	if errors.Is(err, fenlock.ErrLost) || errors.Is(err, fenlock.ErrMaxHold) {
		return err
	}
	return nil
}
