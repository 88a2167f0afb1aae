package fenlockmigrate_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/database/stub"
	dbtesting "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockmigrate"
	"github.com/fenlock/fenlock/node/memnode"
)

const name = "migrations/orders"

// process returns a Locker of a process of its own.
func process(t *testing.T, node *memnode.Node, o fenlock.Observer) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}, Observer: o})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wrap(t *testing.T, driver database.Driver, l *fenlock.Locker, opts ...fenlock.Option) *fenlockmigrate.Driver {
	t.Helper()
	d, err := fenlockmigrate.New(driver, l, name, opts...)
	must(t, err)
	return d
}

// migrating returns what applies two migrations.
func migrating(t *testing.T, driver database.Driver) *migrate.Migrate {
	t.Helper()
	files, err := iofs.New(fstest.MapFS{
		"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER)")},
		"2_items.up.sql":  {Data: []byte("CREATE TABLE items (id INTEGER)")},
	}, ".")
	must(t, err)
	m, err := migrate.NewWithInstance("iofs", files, "test", driver)
	must(t, err)
	return m
}

// memory is a database in memory. Before a migration is applied it calls before.
type memory struct {
	stub.Stub
	before func()
}

func newMemory(before func()) *memory {
	return &memory{Stub: stub.Stub{CurrentVersion: database.NilVersion}, before: before}
}

func (m *memory) Run(migration io.Reader) error {
	m.before()
	return m.Stub.Run(migration)
}

// migrate's own suite for drivers.
func TestSuite(t *testing.T) {
	opened, err := new(sqlite.Sqlite).Open("sqlite://" + filepath.Join(t.TempDir(), "db"))
	must(t, err)
	d := wrap(t, opened, process(t, memnode.New("n"), fenlock.Observer{}))
	dbtesting.Test(t, d, []byte("CREATE TABLE orders (id INTEGER)"))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The second process waits for the first, and finds nothing to do.
func TestOneAtATime(t *testing.T) {
	node, file := memnode.New("n"), "sqlite://"+filepath.Join(t.TempDir(), "db")
	waits := make(chan struct{}, 1)
	first := process(t, node, fenlock.Observer{})
	second := process(t, node, fenlock.Observer{Wait: func(context.Context, string) { waits <- struct{}{} }})
	begun, finish := make(chan struct{}), make(chan struct{})
	open := func(l *fenlock.Locker) database.Driver {
		d, err := wrap(t, new(sqlite.Sqlite), l).Open(file) // what is opened is locked too
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	var both sync.WaitGroup
	d := open(first)
	locked := d.(*fenlockmigrate.Driver)
	locked.Driver = hooked{locked.Driver, sync.OnceFunc(func() {
		close(begun)
		<-finish
	})}
	both.Go(func() {
		if err := migrating(t, d).Up(); err != nil {
			t.Errorf("the first: %v", err)
		}
	})
	<-begun
	both.Go(func() {
		if err := migrating(t, open(second)).Up(); !errors.Is(err, migrate.ErrNoChange) {
			t.Errorf("the second: %v", err)
		}
	})
	<-waits
	close(finish)
	both.Wait()
}

// hooked is a driver that calls before each migration.
type hooked struct {
	database.Driver
	before func()
}

func (h hooked) Run(migration io.Reader) error {
	h.before()
	return h.Driver.Run(migration)
}

// migrate gives up after its LockTimeout. What waited longer would get the lock when it is free,
// and would never give it back.
func TestWaitEndsBeforeLockTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		holder := process(t, node, fenlock.Observer{})
		lock, err := holder.Acquire(t.Context(), name)
		must(t, err)
		m := migrating(t, wrap(t, newMemory(func() {}), process(t, node, fenlock.Observer{})))
		if err := m.Up(); !errors.Is(err, database.ErrLocked) || !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("while it is held: %v", err)
		}
		time.Sleep(time.Minute)
		must(t, lock.Release(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		if lock, err = holder.TryAcquire(t.Context(), name); err != nil {
			t.Fatalf("long after migrate gave up: %v", err)
		}
		must(t, lock.Release(t.Context()))
		if err := m.Up(); err != nil {
			t.Errorf("when it is free: %v", err)
		}
	})
}

// What the lock is lost in is dirty, and nothing comes after it. (migrate keeps a goroutine for the
// migration that it has read ahead, so that this is in no bubble.)
func TestLossStopsMigrations(t *testing.T) {
	node := memnode.New("n")
	lost := make(chan struct{})
	db := newMemory(func() {
		node.Crash()
		<-lost
	})
	l := process(t, node, fenlock.Observer{Lost: func(context.Context, fenlock.LostEvent) { close(lost) }})
	d := wrap(t, db, l, fenlock.WithTTL(2*time.Second), fenlock.WithWait(time.Second))
	if err := migrating(t, d).Up(); !errors.Is(err, fenlock.ErrLost) {
		t.Errorf("Up: %v", err)
	}
	if !db.IsDirty || db.CurrentVersion != 1 || len(db.MigrationSequence) != 1 {
		t.Errorf("version %d, dirty: %t; %q", db.CurrentVersion, db.IsDirty, db.MigrationSequence)
	}
	if err := d.Lock(); !errors.Is(err, fenlock.ErrNoQuorum) || errors.Is(err, database.ErrLocked) {
		t.Errorf("while the node is down: %v", err)
	}
}

// Each write is refused after a loss, and the lock itself is not in the way of the next attempt.
func TestLossIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		db := newMemory(func() {})
		d := wrap(t, db, process(t, node, fenlock.Observer{}))
		must(t, d.Lock())
		node.Crash()
		time.Sleep(fenlock.DefaultTTL)
		for i, err := range []error{d.Run(nil), d.SetVersion(1, false), d.Drop(), d.Unlock()} {
			if !errors.Is(err, fenlock.ErrLost) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if db.CurrentVersion != database.NilVersion || len(db.MigrationSequence) != 0 {
			t.Errorf("it was written: %d, %q", db.CurrentVersion, db.MigrationSequence)
		}
		if err := d.Unlock(); !errors.Is(err, database.ErrNotLocked) {
			t.Errorf("unlocked twice: %v", err)
		}
		node.Restart()
		time.Sleep(fenlock.DefaultMaxTTL + time.Second)
		if err := d.Lock(); err != nil {
			t.Errorf("once more: %v", err)
		}
	})
}

func TestCloseUnlocks(t *testing.T) {
	node := memnode.New("n")
	d := wrap(t, newMemory(func() {}), process(t, node, fenlock.Observer{}))
	must(t, d.Lock())
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := process(t, node, fenlock.Observer{}).TryAcquire(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// What waits in Lock when the driver is closed would get a lock that is never given back.
func TestCloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		holder := process(t, node, fenlock.Observer{})
		lock, err := holder.Acquire(t.Context(), name)
		must(t, err)
		d := wrap(t, newMemory(func() {}), process(t, node, fenlock.Observer{}))
		opened, err := d.Open("stub://") // has a wait of its own
		must(t, err)
		m := migrating(t, d)
		m.LockTimeout = time.Second // although the wait is longer
		if err := m.Up(); !errors.Is(err, migrate.ErrLockTimeout) {
			t.Errorf("Up: %v", err)
		}
		if source, database := m.Close(); source != nil || database != nil {
			t.Error(source, database)
		}
		must(t, lock.Release(t.Context()))
		synctest.Wait()
		if lock, err = holder.TryAcquire(t.Context(), name); err != nil {
			t.Fatalf("after Close: %v", err)
		}
		must(t, lock.Release(t.Context()))
		if err := d.Lock(); err == nil {
			t.Error("it is closed")
		}
		if err := opened.Lock(); err != nil {
			t.Errorf("what it had opened: %v", err)
		}
	})
}

// Of two that wait by one driver, the second does not get the lock that the first has lost: the
// first would unlock it.
func TestLostAndNotUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		holder := process(t, node, fenlock.Observer{})
		lock, err := holder.Acquire(t.Context(), name)
		must(t, err)
		d := wrap(t, newMemory(func() {}), process(t, node, fenlock.Observer{}), fenlock.WithWait(time.Minute))
		got := make(chan error, 2)
		for range 2 {
			go func() { got <- d.Lock() }()
		}
		synctest.Wait()
		must(t, lock.Release(t.Context()))
		if err := <-got; err != nil {
			t.Error(err)
		}
		node.Crash()
		time.Sleep(fenlock.DefaultTTL)
		node.Restart()
		if err := <-got; !errors.Is(err, database.ErrLocked) || !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("the second: %v", err)
		}
		if err := d.Unlock(); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("the first: %v", err)
		}
		if _, err := holder.TryAcquire(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
}

// What cannot lock is not wrapped.
func TestInvalid(t *testing.T) {
	l := process(t, memnode.New("n"), fenlock.Observer{})
	var none *fenlock.Locker
	for i, f := range []func() (*fenlockmigrate.Driver, error){
		func() (*fenlockmigrate.Driver, error) { return fenlockmigrate.New(nil, l, name) },
		func() (*fenlockmigrate.Driver, error) { return fenlockmigrate.New(newMemory(nil), nil, name) },
		func() (*fenlockmigrate.Driver, error) { return fenlockmigrate.New(newMemory(nil), none, name) },
		func() (*fenlockmigrate.Driver, error) { return fenlockmigrate.New(newMemory(nil), l, "") },
		func() (*fenlockmigrate.Driver, error) { return fenlockmigrate.New(newMemory(nil), l, name, nil) },
	} {
		if d, err := f(); d != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
