// Package fenlockmigrate has golang-migrate apply the migrations of a database from one process at
// a time, whatever the database is.
//
//	driver, err := postgres.WithInstance(db, &postgres.Config{})
//	...
//	locked, err := fenlockmigrate.New(driver, locker, "migrations/orders")
//	...
//	m, err := migrate.NewWithDatabaseInstance("file://migrations", "postgres", locked)
//	...
//	err = m.Up()
//	switch {
//	case errors.Is(err, database.ErrLocked): // another process migrates
//	case errors.Is(err, fenlock.ErrLost): // another process may have gone on: look before the next attempt
//	}
//
// The name is for the database: all processes that migrate it need the same. The lock is in the
// place of the driver's own, so that processes without this package are not kept out.
//
// # Waiting
//
// migrate gives up after Migrate.LockTimeout, 15 s, but what waits in Lock goes on, and would get a
// lock that is never given back. So the wait here is over before, after DefaultWait. With a shorter
// LockTimeout, pass a shorter fenlock.WithWait, two thirds of it at most.
//
// # When the lock is lost
//
// Before each migration and each note of a version the driver looks whether it holds the lock; if
// not, that fails with an error that matches fenlock.ErrLost. A migration during which the lock was
// lost so leaves the database dirty: a person has to look, and m.Force says what is there. migrate
// keeps from a driver whether it may go on, so that a single migration is not interrupted.
//
// When Unlock has failed, migrate takes its Migrate for locked: go on with another.
//
// A lock is held for as long as migrations take: fenlock.WithMaxHold is unbounded here, unless an
// option says otherwise.
package fenlockmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/fenlock/fenlock"
)

// DefaultWait is how long Lock waits: less than migrate.DefaultLockTimeout.
const DefaultWait = 10 * time.Second

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
}

// Driver is a database.Driver whose Lock and Unlock are fenlock's.
type Driver struct {
	database.Driver
	locks Locks
	name  string
	opts  []fenlock.Option

	open   context.Context // until Close
	closed context.CancelFunc

	mu   sync.Mutex
	held *fenlock.Lock
}

var _ database.Driver = (*Driver)(nil)

// New wraps a driver. The options are for the lock; WithWait is DefaultWait unless given. The error
// matches fenlock.ErrInvalid.
func New(driver database.Driver, locks Locks, name string, opts ...fenlock.Option) (*Driver, error) {
	if driver == nil || locks == nil {
		return nil, fmt.Errorf("%w: fenlockmigrate needs a driver, and a Locker or Groups, not nil", fenlock.ErrInvalid)
	}
	opts = append([]fenlock.Option{fenlock.WithMaxHold(-1), fenlock.WithWait(DefaultWait)}, opts...)
	if err := locks.Check(name, opts...); err != nil {
		return nil, err
	}
	return newDriver(driver, locks, name, opts), nil
}

func newDriver(driver database.Driver, locks Locks, name string, opts []fenlock.Option) *Driver {
	d := &Driver{Driver: driver, locks: locks, name: name, opts: opts}
	d.open, d.closed = context.WithCancel(context.Background())
	return d
}

// Open implements database.Driver: what the wrapped driver opens is locked as well.
func (d *Driver) Open(url string) (database.Driver, error) {
	opened, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return newDriver(opened, d.locks, d.name, d.opts), nil
}

// Lock implements database.Driver. The error matches database.ErrLocked, and fenlock.ErrHeld, if
// another process has had the lock for as long as it waits, or the driver has it already; while the
// nodes are down it matches fenlock.ErrNoQuorum, and not ErrLocked.
func (d *Driver) Lock() error {
	d.mu.Lock()
	before := d.held
	d.mu.Unlock()
	if before != nil {
		return d.byItself()
	}
	held, err := d.locks.Acquire(d.open, d.name, d.opts...)
	if errors.Is(err, fenlock.ErrHeld) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	if err != nil {
		return err
	}
	if err := d.take(held); err != nil {
		held.Release(context.Background())
		return err
	}
	return nil
}

// take has Unlock release a lock, if it will be called, and for no other one.
func (d *Driver) take(held *fenlock.Lock) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.held != nil: // it is lost, and not unlocked
		return d.byItself()
	case d.open.Err() != nil:
		return fmt.Errorf("%w: %q: the driver is closed", database.ErrLocked, d.name)
	}
	d.held = held
	return nil
}

func (d *Driver) byItself() error {
	return fmt.Errorf("%w: %w: %q, by this driver", database.ErrLocked, fenlock.ErrHeld, d.name)
}

// Unlock implements database.Driver. The error matches database.ErrNotLocked, or is the loss of the
// lock, which matches fenlock.ErrLost or fenlock.ErrMaxHold. A release that too few nodes answer is
// none, as the lease ends by itself: fenlock.Observer hears of it.
func (d *Driver) Unlock() error {
	d.mu.Lock()
	held := d.held
	d.held = nil
	d.mu.Unlock()
	if held == nil {
		return fmt.Errorf("%w: %q", database.ErrNotLocked, d.name)
	}
	err := held.Release(context.Background())
	if errors.Is(err, fenlock.ErrLost) || errors.Is(err, fenlock.ErrMaxHold) {
		return err
	}
	return nil
}

// lost returns why the lock is not held any more, nil if it is. Without Lock there is none to
// lose: migrate calls it first.
func (d *Driver) lost() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil || d.held.Remaining() > 0 {
		return nil
	}
	if cause := context.Cause(d.held.Context()); cause != nil {
		return cause
	}
	return fmt.Errorf("%w: %q: its validity has just run out", fenlock.ErrLost, d.name)
}

// Run implements database.Driver.
func (d *Driver) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion implements database.Driver.
func (d *Driver) SetVersion(version int, dirty bool) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop implements database.Driver.
func (d *Driver) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Drop()
}

// Close implements database.Driver. A lock that is still held is given back, and a Lock that waits
// ends.
func (d *Driver) Close() error {
	d.closed()
	err := d.Driver.Close()
	if unlocked := d.Unlock(); unlocked != nil && !errors.Is(unlocked, database.ErrNotLocked) {
		err = errors.Join(err, unlocked)
	}
	return err
}
