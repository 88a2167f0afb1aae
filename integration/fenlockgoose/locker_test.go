package fenlockgoose_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/integration/fenlockgoose"
	"github.com/fenlock/fenlock/node/memnode"
)

// process returns a Locker of a process of its own, and what is sent whenever that waits.
func process(t *testing.T, node *memnode.Node, opts ...fenlock.Option) (*fenlockgoose.Locker, <-chan struct{}) {
	t.Helper()
	waits := make(chan struct{}, 10)
	l, err := fenlock.New(fenlock.Config{
		Nodes:    []fenlock.Node{node.Share()},
		Observer: fenlock.Observer{Wait: func(context.Context, string) { waits <- struct{}{} }},
	})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	migrations, err := fenlockgoose.New(l, "migrations/orders", opts...)
	must(t, err)
	return migrations, waits
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// migrating returns a provider with one migration, which makes a table and then does work.
func migrating(t *testing.T, db *sql.DB, locking goose.ProviderOption,
	work func(ctx context.Context) error) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, locking, goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "CREATE TABLE orders (id INTEGER)"); err != nil {
				return err
			}
			return work(ctx)
		}}, nil)))
	must(t, err)
	return p
}

// made reports whether the migration was applied.
func made(t *testing.T, db *sql.DB) bool {
	t.Helper()
	var n int
	must(t, db.QueryRow("SELECT count(*) FROM sqlite_master WHERE name = 'orders'").Scan(&n))
	return n == 1
}

// The second process waits until the first has migrated, and finds nothing to do.
func TestOneAtATime(t *testing.T) {
	for kind, with := range map[string]func(*fenlockgoose.Locker) goose.ProviderOption{
		"locker":         func(l *fenlockgoose.Locker) goose.ProviderOption { return goose.WithLocker(l) },
		"session locker": func(l *fenlockgoose.Locker) goose.ProviderOption { return goose.WithSessionLocker(l) },
	} {
		t.Run(kind, func(t *testing.T) {
			node, file := memnode.New("n"), filepath.Join(t.TempDir(), "db")
			first, _ := process(t, node)
			second, waits := process(t, node)
			began, finish := make(chan struct{}), make(chan struct{})
			var both sync.WaitGroup
			both.Go(func() {
				results, err := migrating(t, open(t, file), with(first), func(context.Context) error {
					close(began)
					<-finish
					return nil
				}).Up(t.Context())
				if err != nil || len(results) != 1 {
					t.Errorf("the first: %v, %v", results, err)
				}
			})
			<-began
			both.Go(func() {
				results, err := migrating(t, open(t, file), with(second),
					func(context.Context) error { return nil }).Up(t.Context())
				if err != nil || len(results) != 0 {
					t.Errorf("the second: %v, %v", results, err)
				}
			})
			<-waits
			close(finish)
			both.Wait()
		})
	}
}

// The wait ends with goose's context, and with WithWait.
func TestWaitEnds(t *testing.T) {
	node := memnode.New("n")
	holder, _ := process(t, node)
	must(t, holder.Lock(t.Context(), nil))
	waiter, waits := process(t, node)
	db := open(t, filepath.Join(t.TempDir(), "db"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-waits
		cancel()
	}()
	p := migrating(t, db, goose.WithLocker(waiter), func(context.Context) error { return nil })
	if _, err := p.Up(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, fenlock.ErrHeld) {
		t.Errorf("cancelled: %v", err)
	}
	bounded, _ := process(t, node, fenlock.WithWait(10*time.Millisecond))
	p = migrating(t, db, goose.WithLocker(bounded), func(context.Context) error { return nil })
	if _, err := p.Up(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fenlock.ErrHeld) {
		t.Errorf("bounded: %v", err)
	}
	if made(t, db) {
		t.Error("it migrated without the lock")
	}

	if err := holder.Unlock(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, err := p.Up(t.Context()); err != nil || !made(t, db) {
		t.Errorf("when it is free: %v", err)
	}
}

// Within a process, by one Locker, too.
func TestWaitEndsInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		migrations, _ := process(t, memnode.New("n"), fenlock.WithWait(10*time.Second))
		must(t, migrations.Lock(t.Context(), nil))
		began := time.Now()
		if err := migrations.Lock(t.Context(), nil); !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("bounded: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := migrations.SessionLock(ctx, nil); !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("by its context: %v", err)
		}
		if took := time.Since(began); took != 11*time.Second {
			t.Errorf("they waited %v", took)
		}
		if err := migrations.Unlock(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if err := migrations.Lock(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// Two providers with one Locker, from several goroutines: goose begins the next one of a provider
// just before it unlocks.
func TestOneLocker(t *testing.T) {
	migrations, _ := process(t, memnode.New("n"))
	db := open(t, filepath.Join(t.TempDir(), "db"))
	db.SetMaxOpenConns(10)
	var all sync.WaitGroup
	for range 2 {
		p := migrating(t, db, goose.WithLocker(migrations), func(context.Context) error { return nil })
		for range 3 {
			all.Go(func() {
				for range 10 {
					if _, err := p.Up(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if !made(t, db) {
		t.Error("nobody has migrated")
	}
}

// A process that has lost the lock, and migrates still, does not unlock the next holder's.
func TestLostAndNotUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		migrations, _ := process(t, node)
		must(t, migrations.Lock(t.Context(), nil))
		node.Crash()
		time.Sleep(fenlock.DefaultTTL)
		node.Restart()
		if err := migrations.Lock(t.Context(), nil); !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("before it is unlocked: %v", err)
		}
		if err := migrations.Unlock(t.Context(), nil); !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("it was lost: %v", err)
		}
		if err := migrations.Lock(t.Context(), nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		other, _ := process(t, node, fenlock.WithWait(time.Second))
		if err := other.Lock(t.Context(), nil); !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("another process: %v", err)
		}
	})
}

// A migration that runs when the lock is lost is rolled back.
func TestLossEndsMigrations(t *testing.T) {
	node := memnode.New("n")
	migrations, _ := process(t, node, fenlock.WithTTL(2*time.Second))
	db := open(t, filepath.Join(t.TempDir(), "db"))
	ctx, cancel := migrations.Context(t.Context())
	defer cancel()
	_, err := migrating(t, db, goose.WithLocker(migrations), func(ctx context.Context) error {
		node.Crash()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second): // long after the TTL: nothing has told it
		}
		return nil
	}).Up(ctx)
	if !errors.Is(err, fenlock.ErrLost) || !errors.Is(context.Cause(ctx), fenlock.ErrLost) {
		t.Errorf("%v; the context: %v", err, context.Cause(ctx))
	}
	if made(t, db) {
		t.Error("it was applied without the lock")
	}
	if err := migrations.Unlock(t.Context(), nil); !errors.Is(err, fenlock.ErrReleased) {
		t.Errorf("after it: %v", err)
	}
}

// The same context is for one method after the other: a release is no loss.
func TestContextOutlivesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		migrations, _ := process(t, memnode.New("n"))
		ctx, cancel := migrations.Context(t.Context())
		defer cancel()
		for range 2 {
			must(t, migrations.Lock(ctx, nil))
			if err := migrations.Unlock(ctx, nil); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if ctx.Err() != nil {
			t.Error(context.Cause(ctx))
		}
	})
}

func TestInvalid(t *testing.T) {
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{memnode.New("n")}})
	must(t, err)
	defer l.Close()
	var none *fenlock.Locker
	for what, f := range map[string]func() (*fenlockgoose.Locker, error){
		"nil":          func() (*fenlockgoose.Locker, error) { return fenlockgoose.New(nil, "a") },
		"a nil Locker": func() (*fenlockgoose.Locker, error) { return fenlockgoose.New(none, "a") },
		"no name":      func() (*fenlockgoose.Locker, error) { return fenlockgoose.New(l, "") },
		"a nil option": func() (*fenlockgoose.Locker, error) { return fenlockgoose.New(l, "a", nil) },
	} {
		if made, err := f(); made != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
