// Package fencepgx checks fencing tokens inside a transaction of pgx: what package
// fence/fencesql does for database/sql, on the same table.
//
//	guard := fencepgx.Guard{}
//
//	tx, err := pool.Begin(ctx)
//	...
//	defer tx.Rollback(ctx) // does nothing after Commit
//	if err := guard.Check(ctx, tx, "orders/42", lock.Token()); err != nil {
//		return err // errors.Is(err, fence.ErrStale): the lock is somebody else's by now
//	}
//	_, err = tx.Exec(ctx, "UPDATE orders SET ... WHERE id = 42")
//	...
//	return tx.Commit(ctx)
//
// Why the check and the write are one, in which order to check, and what the isolation
// levels do: see package fencesql. A savepoint (tx.Begin) that is rolled back takes a
// Check in it along.
package fencepgx

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencesql"
)

// Guard refuses writes whose token is older than one that the resource has seen. The zero value is
// for the default table. A Guard holds no state of its own: it may be copied, made anew for each
// use, and used concurrently. It works between processes, also those that use fencesql.
type Guard struct {
	// Table is as in fencesql.Guard; empty means fencesql.DefaultTable.
	Table string
	// Refused is told of each write that is refused for its token, before Check returns; ctx is
	// Check's. It may be nil. It must be safe for concurrent use.
	Refused func(ctx context.Context, e *fence.StaleError)
}

// Check records that the transaction writes resource under t, or refuses. Its results are
// those of fencesql.Guard.Check: nil, a *fence.StaleError, an error that matches
// fence.ErrInvalidToken, or another one. After every error the transaction must be rolled
// back.
//
// It takes a pgx.Tx and not what a pool or a connection is as well: a check that commits
// on its own protects nothing.
func (g Guard) Check(ctx context.Context, tx pgx.Tx, resource string, t fence.Token) error {
	if !t.Valid() {
		return fmt.Errorf("%w: %d", fence.ErrInvalidToken, uint64(t))
	}
	if _, err := g.Schema(); err != nil {
		return err
	}
	table := g.Table
	if table == "" {
		table = fencesql.DefaultTable
	}
	// In one statement, so that nothing can come between reading and writing. The operators are
	// PostgreSQL's own, whatever the search_path has in front of them.
	done, err := tx.Exec(ctx, `INSERT INTO `+table+` AS f (resource, token) VALUES ($1, $2) `+
		`ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token OPERATOR(pg_catalog.<=) excluded.token`,
		resource, int64(t))
	if err != nil {
		return fmt.Errorf("fencepgx: recording token %d for %q: %w", uint64(t), resource, err)
	}
	if done.RowsAffected() == 1 {
		return nil
	}
	// The row is locked by now, so this is the token that refused ours.
	var newest int64
	err = tx.QueryRow(ctx, `SELECT token FROM `+table+` WHERE resource OPERATOR(pg_catalog.=) $1`, resource).Scan(&newest)
	if err != nil {
		return fmt.Errorf("fencepgx: token %d for %q was not recorded; reading the newest: %w", uint64(t), resource, err)
	}
	stale := &fence.StaleError{Resource: resource, Token: t, Newest: fence.Token(newest)}
	if g.Refused != nil {
		g.Refused(ctx, stale)
	}
	return stale
}

// Schema returns the statement that creates the table, as fencesql.Guard.Schema does.
func (g Guard) Schema() (string, error) {
	return fencesql.Guard{Dialect: fencesql.PostgreSQL, Table: g.Table}.Schema()
}
