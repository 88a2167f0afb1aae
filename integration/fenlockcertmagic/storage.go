package fenlockcertmagic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/fenlock/fenlock"
)

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
	TryAcquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
}

// Storage is a certmagic.Storage with fenlock's locks. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage
	locks  Locks
	prefix string
	opts   []fenlock.Option

	mu      sync.Mutex
	entries map[string]*entry // by certmagic's names
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// entry is a name that this process has locked, or waits for. certmagic unlocks by the name. So the
// next caller of the process waits until it does, also if the lock was lost: it would be released
// otherwise.
type entry struct {
	turn  chan struct{} // full from Lock to Unlock
	users int           // the caller that has, or waits for, the turn
	lock  *fenlock.Lock // nil before it is held, and once it is being released
}

// New returns the Storage, with locks whose names begin with the prefix and a slash: any name of
// certmagic's can be locked. The options are for each lock; fenlock.WithWait bounds Lock's wait for
// other processes; for one of this process it waits until Unlock, or its context is done. The error
// matches fenlock.ErrInvalid.
func New(storage certmagic.Storage, locks Locks, prefix string, opts ...fenlock.Option) (*Storage, error) {
	switch {
	case storage == nil || locks == nil:
		return nil, fmt.Errorf("%w: fenlockcertmagic needs a Storage, and a Locker or Groups, not nil", fenlock.ErrInvalid)
	case len(prefix) > longestPrefix:
		return nil, fmt.Errorf("%w: the prefix has %d bytes, at most %d leave room for names", fenlock.ErrInvalid,
			len(prefix), longestPrefix)
	}
	opts = append([]fenlock.Option{fenlock.WithMaxHold(-1)}, opts...)
	if err := locks.Check(prefix, opts...); err != nil {
		return nil, err
	}
	return &Storage{Storage: storage, locks: locks, prefix: prefix, opts: opts, entries: map[string]*entry{}}, nil
}

// Lock implements certmagic.Locker. It waits until the lock is free, or ctx is done: the error then
// matches fenlock.ErrHeld or fenlock.ErrNoQuorum as well.
func (s *Storage) Lock(ctx context.Context, name string) error {
	e := s.enter(name)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		s.leave(name, e)
		return fmt.Errorf("fenlockcertmagic: lock %q: %w: %w", name, ctx.Err(), fenlock.ErrHeld)
	}
	return s.take(ctx, name, e, s.locks.Acquire)
}

// TryLock implements certmagic.TryLocker. It does not wait: false without an error is another one's
// lock, and with one, which matches fenlock.ErrNoQuorum for example, nothing is known.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	e := s.enter(name)
	select {
	case e.turn <- struct{}{}:
	default:
		s.leave(name, e)
		return false, nil
	}
	err := s.take(ctx, name, e, s.locks.TryAcquire)
	if errors.Is(err, fenlock.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock implements certmagic.Locker. Of a lock that was lost there is nothing to release: that is
// no error here, and RenewLockLease and fenlock.Config's Logger have told of it. The error matches
// fenlock.ErrReleased if the name is not locked, and fenlock.ErrNoQuorum if too few nodes answer:
// then the lock is free after a TTL.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	e := s.entries[name]
	var lock *fenlock.Lock
	if e != nil {
		lock, e.lock = e.lock, nil
	}
	s.mu.Unlock()
	if lock == nil {
		return notLocked(name)
	}
	defer func() { // also if an observer panics, see take
		<-e.turn
		s.leave(name, e)
	}()
	err := lock.Release(ctx)
	if errors.Is(err, fenlock.ErrLost) || errors.Is(err, fenlock.ErrMaxHold) {
		return nil
	}
	return err
}

// RenewLockLease implements certmagic.LockLeaseRenewer, for a caller that is about to begin an
// attempt. It sees to it that the name is locked. A lock that was lost, so that others may have had
// it, is taken again, if it is free. An error says that it is not locked, or that this is not
// certain. It matches fenlock.ErrLost and fenlock.ErrHeld if another instance has it by now. The
// duration does not matter: the lock extends itself until Unlock.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	e := s.entries[name]
	var lock *fenlock.Lock
	if e != nil {
		lock = e.lock
	}
	s.mu.Unlock()
	if lock == nil {
		return notLocked(name)
	}
	lost := lock.Extend(ctx)
	if !errors.Is(lost, fenlock.ErrLost) && !errors.Is(lost, fenlock.ErrMaxHold) {
		return lost
	}
	again, err := s.locks.TryAcquire(ctx, lockName(s.prefix, name), s.opts...)
	if err != nil {
		return errors.Join(lost, err)
	}
	s.mu.Lock()
	unlocked := e.lock != lock // meanwhile
	if !unlocked {
		e.lock = again
	}
	s.mu.Unlock()
	if unlocked {
		return errors.Join(notLocked(name), again.Release(ctx))
	}
	return nil
}

func notLocked(name string) error {
	return fmt.Errorf("%w: %q is not locked by this process", fenlock.ErrReleased, name)
}

func (s *Storage) enter(name string) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		e = &entry{turn: make(chan struct{}, 1)}
		s.entries[name] = e
	}
	e.users++
	return e
}

func (s *Storage) leave(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(s.entries, name)
	}
}

// take acquires the lock of the caller that has the turn.
func (s *Storage) take(ctx context.Context, name string, e *entry,
	acquire func(context.Context, string, ...fenlock.Option) (*fenlock.Lock, error)) error {
	held := false
	defer func() { // also if an observer panics, from which certmagic recovers
		if !held {
			<-e.turn
			s.leave(name, e)
		}
	}()
	lock, err := acquire(ctx, lockName(s.prefix, name), s.opts...)
	if err != nil {
		return err
	}
	held = true
	s.mu.Lock()
	defer s.mu.Unlock()
	e.lock = lock
	return nil
}

// String says what it is around, in certmagic's log.
func (s *Storage) String() string { return fmt.Sprintf("fenlock %q, %v", s.prefix, s.Storage) }
