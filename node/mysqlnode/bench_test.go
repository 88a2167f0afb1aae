package mysqlnode_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// BenchmarkBesideGetLock is acquire and release, by fenlock and by GET_LOCK, on one server. It
// measures one client, two processes that take turns, and 64 goroutines with names of their own.
// GET_LOCK waits for no disk, and knows no token. The same without waiting for the disk
// (innodb_flush_log_at_trx_commit=2) tells what of the difference that is.
func BenchmarkBesideGetLock(b *testing.B) {
	for _, flush := range []int{1, 2} {
		s := testserver.StartMariaDB(b, fmt.Sprintf("innodb-flush-log-at-trx-commit=%d", flush), "max-connections=300")
		for _, kind := range []struct {
			name string
			open func(testing.TB, *testserver.MariaDB) locker
		}{{"fenlock", newFenlock}, {"get_lock", newGetLock}} {
			if kind.name == "get_lock" && flush != 1 {
				continue
			}
			name := fmt.Sprintf("%s/flush=%d", kind.name, flush)
			b.Run(name+"/alone", func(b *testing.B) {
				l := kind.open(b, s)
				l.cycle(b.Context(), b, "warm")
				for b.Loop() {
					l.cycle(b.Context(), b, "alone")
				}
			})
			b.Run(name+"/handover", func(b *testing.B) {
				two := []locker{kind.open(b, s), kind.open(b, s)}
				together(b, 2, func(i int) { two[i].cycle(b.Context(), b, "handover") })
			})
			b.Run(name+"/64-names", func(b *testing.B) {
				l := kind.open(b, s)
				together(b, 64, func(i int) { l.cycle(b.Context(), b, fmt.Sprint("name ", i)) })
			})
		}
	}
}

// together has b.N cycles done by so many goroutines.
func together(b *testing.B, workers int, cycle func(worker int)) {
	for i := range workers {
		cycle(i)
	}
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for range b.N/workers + 1 {
				cycle(i)
			}
		})
	}
	all.Wait()
}

type locker interface {
	cycle(ctx context.Context, t testing.TB, name string)
}

type fenlocker struct{ *fenlock.Locker }

func newFenlock(t testing.TB, s *testserver.MariaDB) locker { return fenlocker{newLocker(t, s.URL())} }

// newLocker returns a process's Locker on a new group of one.
func newLocker(t testing.TB, url string) *fenlock.Locker {
	t.Helper()
	n := open(t, url)
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, NewServers: true, NodeTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (l fenlocker) cycle(ctx context.Context, t testing.TB, name string) {
	lock, err := l.Acquire(ctx, name)
	if err == nil {
		err = lock.Release(ctx)
	}
	if err != nil {
		t.Error(err)
	}
}

type getLock struct{ *sql.DB }

func newGetLock(t testing.TB, s *testserver.MariaDB) locker {
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(64)
	t.Cleanup(func() { db.Close() })
	return getLock{db}
}

func (l getLock) cycle(ctx context.Context, t testing.TB, name string) {
	conn, err := l.Conn(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	for _, query := range []string{"SELECT GET_LOCK('%s', 10)", "SELECT RELEASE_LOCK('%s')"} {
		var got int
		if err := conn.QueryRowContext(ctx, fmt.Sprintf(query, name)).Scan(&got); err != nil || got != 1 {
			t.Errorf("%d, %v", got, err)
			return
		}
	}
}
