package fencepgx_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencepgx"
	"github.com/fenlock/fenlock/internal/testserver"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const resource = "orders/42"

// start returns a pool on an empty database with the guard's table, and a history.
func start(t *testing.T, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(testserver.StartPostgres(t).DSN())
	must(t, err)
	config.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	schema, err := fencepgx.Guard{}.Schema()
	must(t, err)
	for _, statement := range []string{schema, schema,
		"CREATE TABLE history (seq BIGINT GENERATED ALWAYS AS IDENTITY, token BIGINT)"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// write is the user's transaction.
func write(ctx context.Context, pool *pgxpool.Pool, level pgx.TxIsoLevel, token fence.Token) error {
	for {
		err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			if err := (fencepgx.Guard{}).Check(ctx, tx, resource, token); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO history (token) VALUES ($1)", int64(token))
			return err
		})
		if failed := (*pgconn.PgError)(nil); errors.As(err, &failed) && failed.Code == "40001" {
			continue // a serialization failure says nothing about the token
		}
		return err
	}
}

// Old tokens are refused, their transactions leave nothing, and a rollback takes a token along.
// In each way in which pgx sends statements.
func TestCheck(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			pool, ctx := start(t, mode), t.Context()
			for _, token := range []fence.Token{33, 33, 34, fence.MaxToken - 1, fence.MaxToken} {
				must(t, write(ctx, pool, pgx.ReadCommitted, token))
			}
			var told *fence.StaleError
			guard := fencepgx.Guard{Refused: func(_ context.Context, e *fence.StaleError) { told = e }}
			tx, err := pool.Begin(ctx)
			must(t, err)
			err = guard.Check(ctx, tx, resource, 35)
			want := fence.StaleError{Resource: resource, Token: 35, Newest: fence.MaxToken}
			if stale := (*fence.StaleError)(nil); !errors.As(err, &stale) || *stale != want || told == nil || *told != want {
				t.Errorf("%v, told %v", err, told)
			}
			// A savepoint takes what it has checked along, and so does a transaction.
			if err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				if err := guard.Check(ctx, inner, "other", 50); err != nil {
					t.Error(err)
				}
				return errors.New("the user's own")
			}); err == nil {
				t.Error("not rolled back")
			}
			if err := guard.Check(ctx, tx, "other", 40); err != nil {
				t.Errorf("token 40 after a rollback of 50: %v", err)
			}
			tx.Rollback(ctx)
			if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return guard.Check(ctx, tx, "other", 1) }); err != nil {
				t.Errorf("token 1 after a rollback of 40: %v", err)
			}
			for _, token := range []fence.Token{0, fence.MaxToken + 1} {
				if err := guard.Check(ctx, nil, resource, token); !errors.Is(err, fence.ErrInvalidToken) {
					t.Errorf("token %d: %v", uint64(token), err)
				}
			}
			if err := (fencepgx.Guard{Table: "a; DROP TABLE b"}).Check(ctx, nil, resource, 1); err == nil {
				t.Error("a table that is no name was used")
			}
			if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				return fencepgx.Guard{Table: "missing"}.Check(ctx, tx, resource, 1)
			}); err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("a table that is missing: %v", err)
			}
		})
	}
}

// Operators of a schema in front of pg_catalog, with which each token would pass, are not those of
// the guard.
func TestShadowed(t *testing.T) {
	pool, ctx := start(t, pgx.QueryExecModeCacheStatement), t.Context()
	must(t, write(ctx, pool, pgx.ReadCommitted, 34))
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`CREATE SCHEMA theirs`,
			`CREATE FUNCTION theirs.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
			`CREATE FUNCTION theirs.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
			`CREATE OPERATOR theirs.<= (FUNCTION = theirs.yes, LEFTARG = bigint, RIGHTARG = bigint)`,
			`CREATE OPERATOR theirs.= (FUNCTION = theirs.no, LEFTARG = text, RIGHTARG = text)`,
			`SET LOCAL search_path = theirs, public, pg_catalog`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		var leads bool
		if err := tx.QueryRow(ctx, `SELECT 34::bigint <= 33::bigint`).Scan(&leads); err != nil || !leads {
			t.Errorf("the test shows nothing: %v, %v", leads, err)
		}
		return fencepgx.Guard{}.Check(ctx, tx, resource, 33)
	})
	if stale := (*fence.StaleError)(nil); !errors.As(err, &stale) || stale.Newest != 34 {
		t.Errorf("token 33 after 34: %v", err)
	}
}

// Many holders write at once: what landed only ever grew, on each isolation level.
func TestLoad(t *testing.T) {
	pool := start(t, pgx.QueryExecModeCacheStatement)
	next := fence.Token(1)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		var all sync.WaitGroup
		for range 30 {
			token := next
			next++
			all.Go(func() {
				if err := write(t.Context(), pool, level, token); err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	rows, err := pool.Query(t.Context(), "SELECT token FROM history ORDER BY seq")
	must(t, err)
	history, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || !slices.IsSorted(history) || history[len(history)-1] != int64(next-1) {
		t.Errorf("%v, %v", history, err)
	}
}

// From Check to Commit no other transaction passes Check for the resource, and then decides anew.
func TestHoldsTheRow(t *testing.T) {
	pool, ctx := start(t, pgx.QueryExecModeCacheStatement), t.Context()
	first, err := pool.Begin(ctx)
	must(t, err)
	defer first.Rollback(ctx)
	must(t, (fencepgx.Guard{}).Check(ctx, first, resource, 34))
	second := make(chan error, 1)
	go func() { second <- write(ctx, pool, pgx.ReadCommitted, 33) }()
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) { // ends with the test's deadline, if it never waits
		const waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
		must(t, pool.QueryRow(ctx, waits).Scan(&waiting))
		select {
		case err := <-second:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
	}
	must(t, first.Commit(ctx))
	if err := <-second; !errors.Is(err, fence.ErrStale) {
		t.Errorf("token 33 after 34: %v", err)
	}
}
