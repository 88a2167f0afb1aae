package pgnode

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// lockFunc takes a lock and returns how to release it.
type lockFunc func(ctx context.Context, name string) (release func(context.Context) error, err error)

// ours is a Locker of its own for each, as processes would have.
func ours(b *testing.B, rawURL string) lockFunc {
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{open(b, rawURL)}, TTL: time.Minute, MaxTTL: time.Minute,
		NewServers: true, NodeTimeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}
}

// advisory is PostgreSQL's own recipe: a session lock, on a connection that is set aside for as
// long as it is held. It has no token, and its holder does not hear of a loss.
func advisory(b *testing.B, rawURL string) lockFunc {
	config, err := pgx.ParseConfig(rawURL)
	if err != nil {
		b.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxIdleConns(64)
	b.Cleanup(func() { db.Close() })
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, name); err != nil {
			conn.Close()
			return nil, err
		}
		return func(ctx context.Context) error {
			defer conn.Close()
			_, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, name)
			return err
		}, nil
	}
}

func BenchmarkAlone(b *testing.B) { compare(b, 1, func(int) string { return "a" }) }
func BenchmarkSixtyFour(b *testing.B) {
	compare(b, 64, func(i int) string { return fmt.Sprint("name", i) })
}

// A handover is one acquisition of two clients who take turns.
func BenchmarkHandover(b *testing.B) { compare(b, 2, func(int) string { return "a" }) }

// compare has so many goroutines, of two clients, take locks. Sub-benchmarks take turns, so
// that both see the same machine.
func compare(b *testing.B, goroutines int, name func(i int) string) {
	server := testserver.StartPostgres(b)
	u := newSchema(b, server)
	for round := range 3 {
		for _, kind := range []struct {
			name string
			make func(*testing.B) lockFunc
		}{
			{"fenlock", func(b *testing.B) lockFunc { return ours(b, u) }},
			{"advisory", func(b *testing.B) lockFunc { return advisory(b, server.DSN()) }},
		} {
			b.Run(fmt.Sprint(kind.name, "/", round), func(b *testing.B) {
				clients := []lockFunc{kind.make(b), kind.make(b)}
				ctx := context.Background()
				for i := range goroutines { // connections, statements, subscriptions
					release, err := clients[i%2](ctx, name(i))
					if err != nil {
						b.Fatal(err)
					}
					release(ctx)
				}
				b.ResetTimer()
				var wait sync.WaitGroup
				for i := range goroutines {
					wait.Go(func() {
						for range (b.N + goroutines - 1) / goroutines {
							release, err := clients[i%2](ctx, name(i))
							if err != nil {
								b.Error(err)
								return
							}
							if err := release(ctx); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wait.Wait()
			})
		}
	}
}
