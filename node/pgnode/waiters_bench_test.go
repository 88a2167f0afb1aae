package pgnode

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// A thousand waiters in ten clients (a server has a hundred connections), on as many names and on
// one. It measures what they ask while nothing happens, how many backends wait for another, and how
// long it takes until all had their turn.
func BenchmarkWaiters(b *testing.B) {
	server := testserver.StartPostgres(b)
	u := newSchema(b, server)
	for _, names := range []int{1000, 1} {
		b.Run(fmt.Sprint(names, "names"), func(b *testing.B) { waiters(b, u, 10, 100, names) })
	}
}

func waiters(b *testing.B, u string, clients, each, names int) {
	locker := func() *fenlock.Locker {
		l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{open(b, u)}, TTL: 30 * time.Second, NewServers: true,
			NodeTimeout: 7 * time.Second})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		return l
	}
	name := func(i int) string { return fmt.Sprint("name", i%names) }
	holder := locker()
	var held []*fenlock.Lock
	for i := range names {
		lock, err := holder.Acquire(b.Context(), name(i))
		if err != nil {
			b.Fatal(err)
		}
		held = append(held, lock)
	}
	var served, early atomic.Int64
	var all sync.WaitGroup
	var freed atomic.Bool
	for c := range clients {
		l := locker()
		for i := range each {
			all.Go(func() {
				lock, err := l.Acquire(b.Context(), name(c*each+i))
				if err != nil {
					b.Error(err)
					return
				}
				if !freed.Load() {
					early.Add(1)
				}
				served.Add(1)
				if err := lock.Release(context.WithoutCancel(b.Context())); err != nil {
					b.Error(err)
				}
			})
		}
	}
	time.Sleep(10 * time.Second) // until they ask seldom
	admin := open(b, u)
	statements := func() (n int) {
		// This client's figures reach the view within a second, with the next statement.
		if err := admin.db.QueryRow(
			`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	const length = 20 * time.Second
	began, before := time.Now(), statements()
	blocked := 0
	for range 20 {
		time.Sleep(length / 20)
		blocked = max(blocked, waitForLocks(b, admin.db))
	}
	asked := float64(statements()-before-20) / time.Since(began).Seconds()
	if early.Load() > 0 {
		b.Errorf("%d had a lock that was held", early.Load())
	}

	freed.Store(true)
	began = time.Now()
	for _, lock := range held {
		if err := lock.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	crowd := 0
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(20 * time.Millisecond):
			crowd = max(crowd, waitForLocks(b, admin.db))
		}
	}
	took := time.Since(began)
	if served.Load() != int64(clients*each) {
		b.Errorf("%d of %d had their turn", served.Load(), clients*each)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(asked/float64(clients*each), "statements/s/waiter")
	b.ReportMetric(float64(blocked), "blocked")
	b.ReportMetric(float64(crowd), "blocked-served")
	b.ReportMetric(float64(took.Milliseconds())/float64(clients*each), "ms/served")
}

// waitForLocks returns how many backends wait for a lock of another one.
func waitForLocks(b *testing.B, db *sql.DB) (n int) {
	if err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}
