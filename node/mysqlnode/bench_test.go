package mysqlnode_test

import (
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
			open func(testing.TB, *testserver.MariaDB) cycle
		}{{"fenlock", newFenlock}, {"get_lock", newGetLock}} {
			if kind.name == "get_lock" && flush != 1 {
				continue
			}
			name := fmt.Sprintf("%s/flush=%d", kind.name, flush)
			b.Run(name+"/alone", func(b *testing.B) {
				do := kind.open(b, s)
				do("warm")
				for b.Loop() {
					do("alone")
				}
			})
			b.Run(name+"/handover", func(b *testing.B) {
				two := []cycle{kind.open(b, s), kind.open(b, s)}
				together(b, 2, func(i int) { two[i]("handover") })
			})
			b.Run(name+"/64-names", func(b *testing.B) {
				do := kind.open(b, s)
				together(b, 64, func(i int) { do(fmt.Sprint("name ", i)) })
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

// cycle takes a lock and releases it.
type cycle func(name string)

// newFenlock is one process's, on a new group of one.
func newFenlock(t testing.TB, s *testserver.MariaDB) cycle {
	n := open(t, s.URL())
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, NewServers: true, NodeTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return func(name string) {
		lock, err := l.Acquire(t.Context(), name)
		if err == nil {
			err = lock.Release(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func newGetLock(t testing.TB, s *testserver.MariaDB) cycle {
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(64)
	t.Cleanup(func() { db.Close() })
	return func(name string) {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for _, query := range []string{"SELECT GET_LOCK('%s', 10)", "SELECT RELEASE_LOCK('%s')"} {
			var got int
			if err := conn.QueryRowContext(t.Context(), fmt.Sprintf(query, name)).Scan(&got); err != nil || got != 1 {
				t.Errorf("%d, %v", got, err)
				return
			}
		}
	}
}
