// Package fencesql checks fencing tokens inside a database transaction, with
// nothing but database/sql. The newest token of each resource is a row beside
// the data that it protects:
//
//	guard := fencesql.Guard{Dialect: fencesql.PostgreSQL}
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer tx.Rollback() // does nothing after Commit
//	if err := guard.Check(ctx, tx, "orders/42", lock.Token()); err != nil {
//		return err // errors.Is(err, fence.ErrStale): the lock is somebody else's by now
//	}
//	_, err = tx.ExecContext(ctx, "UPDATE orders SET ... WHERE id = 42")
//	...
//	return tx.Commit()
//
// # Why the check and the write are one
//
// Check is a single conditional statement. It writes the token into the row of the resource if no
// larger one is there. On MySQL it is two statements, of which the first takes the lock. That takes
// the row's lock, also where the token is refused, and a transaction keeps its locks until it ends.
// So from Check to Commit no other transaction can pass Check for the same resource: a later holder
// waits, and then sees this token. If the transaction is rolled back, the token goes with the
// writes: neither has happened.
//
// Every transaction that writes the resource has to call Check. Call it first: what the transaction
// reads afterwards is then what the last holder left, and a stale client does no work in vain. A
// transaction that checks several resources checks them in a fixed order, sorted for example.
// Otherwise two transactions may wait for each other until the database aborts one. A rollback to a
// savepoint set before Check undoes Check.
//
// # Isolation levels
//
// The guarantee holds on all of them. They differ in what Check does when
// another transaction of the resource is under way:
//   - PostgreSQL, READ COMMITTED (the default): it waits for the other to end,
//     then decides on what that one left.
//   - PostgreSQL, REPEATABLE READ and SERIALIZABLE: it waits, and if the other transaction
//     committed, Check fails with SQLSTATE 40001 (serialization failure). That says nothing about
//     the token: roll back and run the transaction again.
//   - SQLite: one transaction writes at a time, whatever the resource. Check waits for as long as
//     busy_timeout says and then fails with SQLITE_BUSY: roll back and run it again. In WAL mode a
//     transaction that has read before Check fails at once if another one has written since; check
//     first, or begin the transaction with BEGIN IMMEDIATE.
//   - MySQL and MariaDB, all levels, on InnoDB: it waits for the other to end, then decides on what
//     that one left. It fails if the wait is too long (1205) or in a circle (1213). With MariaDB's
//     innodb_snapshot_isolation it fails if another transaction has checked since this one first
//     read (1020). Roll back and run it again. On REPEATABLE READ, the default, plain SELECTs see
//     the database as it was at the first of them, without an error. Check before the first one, or
//     read with FOR UPDATE. The user needs SELECT, INSERT and UPDATE.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/fenlock/fenlock/fence"
)

// Dialect is a database's flavor of SQL.
type Dialect uint8

// The dialects that Guard speaks.
const (
	SQLite     Dialect = iota // 3.24 and newer
	PostgreSQL                // 9.5 and newer
	MySQL                     // 5.7 and newer, and MariaDB, with tables of InnoDB
)

// DefaultTable is the name of the table where Guard.Table is empty.
const DefaultTable = "fenlock_fence"

// Guard refuses writes whose token is older than one that the resource has seen.
// The zero value is for SQLite and the default table. A Guard holds no state of
// its own: it may be copied, made anew for each use, and used concurrently, and
// it works between processes.
type Guard struct {
	Dialect Dialect
	// Table is a name, or a schema's and a name with a dot between them; empty
	// means DefaultTable. Letters, digits and underscores only: the name goes into
	// the statements as it is, without quotes. Name the schema on PostgreSQL, if the sessions that
	// write differ in their search_path: each of them could find another table.
	Table string
	// Refused is told of each write that is refused for its token, before Check returns; ctx is
	// Check's. It may be nil. It must be safe for concurrent use.
	Refused func(ctx context.Context, e *fence.StaleError)
}

// Check records that the transaction writes resource under t, or refuses. It
// returns nil if no larger token is recorded; an equal one is the holder's own,
// from a write before. Otherwise it returns:
//   - a *fence.StaleError (matches fence.ErrStale) if a larger token is recorded.
//     Retrying with the same token cannot succeed.
//   - an error that matches fence.ErrInvalidToken if t is not valid. Nothing was
//     sent to the database.
//   - any other error if Guard.Table is not a name or the database could not tell. The table is
//     missing, the connection broke, or see the isolation levels above.
//
// After every error the transaction must be rolled back. Nothing else stops a
// stale write: to the database the refused statement is one that changed no row.
//
// It takes a *sql.Tx and not an interface, because *sql.DB would satisfy that
// too, and a check that commits on its own protects nothing.
func (g Guard) Check(ctx context.Context, tx *sql.Tx, resource string, t fence.Token) error {
	if !t.Valid() {
		return fmt.Errorf("%w: %d", fence.ErrInvalidToken, uint64(t))
	}
	table, err := g.table()
	if err != nil {
		return err
	}
	if g.Dialect == MySQL {
		return g.checkMySQL(ctx, tx, table, resource, t)
	}
	// In one statement, so that nothing can come between reading and writing.
	result, err := tx.ExecContext(ctx, g.bind(`INSERT INTO `+table+` AS f (resource, token) VALUES (?, ?) `+
		`ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE f.token `+g.operator("<=")+` excluded.token`),
		resource, int64(t))
	if err != nil {
		return fmt.Errorf("fencesql: recording token %d for %q: %w", uint64(t), resource, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("fencesql: recording token %d for %q: %w", uint64(t), resource, err)
	}
	if rows == 1 {
		return nil
	}

	// The row is locked by now, so this is the token that refused ours.
	var newest int64
	err = tx.QueryRowContext(ctx, g.bind(`SELECT token FROM `+table+` WHERE resource `+g.operator("=")+` ?`),
		resource).Scan(&newest)
	if err != nil {
		return fmt.Errorf("fencesql: token %d for %q was not recorded; reading the newest: %w", uint64(t), resource, err)
	}
	return g.refuse(ctx, resource, t, newest)
}

func (g Guard) refuse(ctx context.Context, resource string, t fence.Token, newest int64) error {
	stale := &fence.StaleError{Resource: resource, Token: t, Newest: fence.Token(newest)}
	if g.Refused != nil {
		g.Refused(ctx, stale)
	}
	return stale
}

// checkMySQL has the larger token kept, which takes the row's lock in any case, and then
// reads whose it is. How many rows were affected does not tell: that depends on how the
// driver was configured (clientFoundRows).
//
// The resource is bytes for the driver too, so that no character set comes in between.
func (g Guard) checkMySQL(ctx context.Context, tx *sql.Tx, table, resource string, t fence.Token) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO `+table+
		` (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)`,
		[]byte(resource), int64(t), int64(t))
	if err != nil {
		return fmt.Errorf("fencesql: recording token %d for %q: %w", uint64(t), resource, err)
	}
	// FOR UPDATE: what is there, and not what was there when the transaction first read.
	var newest int64
	err = tx.QueryRowContext(ctx, `SELECT token FROM `+table+` WHERE resource = ? FOR UPDATE`,
		[]byte(resource)).Scan(&newest)
	if err != nil {
		return fmt.Errorf("fencesql: token %d for %q: reading the newest: %w", uint64(t), resource, err)
	}
	if fence.Token(newest) > t {
		return g.refuse(ctx, resource, t, newest)
	}
	return nil
}

// Schema returns the statement that creates the table. Run it once, from a migration: on
// PostgreSQL, IF NOT EXISTS is not safe against another session that creates the table at
// the same moment. On MySQL a resource has at most 1,024 bytes.
//
// The table has one row per resource. Deleting a row lets old tokens of its resource in again; do
// it only when no client can still hold one.
func (g Guard) Schema() (string, error) {
	table, err := g.table()
	if err != nil {
		return "", err
	}
	// SQLite allows NULL in a primary key unless told otherwise. MySQL has no TEXT there,
	// takes "a" for "A" in it, and may have tables that know no transactions.
	resource, engine := "TEXT", ""
	switch g.Dialect {
	case PostgreSQL:
		resource = "pg_catalog.text"
	case MySQL:
		resource, engine = "VARBINARY(1024)", " ENGINE=InnoDB"
	}
	return `CREATE TABLE IF NOT EXISTS ` + table + ` (
	resource ` + resource + ` NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL CHECK (token ` + g.operator(">=") + ` 1 AND token ` + g.operator("<=") + ` ` +
		fence.MaxToken.String() + `)
)` + engine, nil
}

// operator returns an operator as a statement of the dialect has it. On PostgreSQL, a schema in
// front of pg_catalog in the search_path may have an operator of the same name, by which each token
// passes.
func (g Guard) operator(name string) string {
	if g.Dialect == PostgreSQL {
		return "OPERATOR(pg_catalog." + name + ")"
	}
	return name
}

// PostgreSQL cuts a longer name off in silence, and two could become one.
const maxNameLength = 63

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

var errTable = errors.New("fencesql: Table is not a name")

func (g Guard) table() (string, error) {
	if g.Table == "" {
		return DefaultTable, nil
	}
	if !tableName.MatchString(g.Table) {
		return "", fmt.Errorf("%w (letters, digits, underscores, one dot): %.100q", errTable, g.Table)
	}
	for name := range strings.SplitSeq(g.Table, ".") {
		if len(name) > maxNameLength {
			return "", fmt.Errorf("%w of at most %d characters: %.100q", errTable, maxNameLength, g.Table)
		}
	}
	return g.Table, nil
}

// bind writes the parameters of a statement, all of them "?", in the dialect.
func (g Guard) bind(statement string) string {
	if g.Dialect != PostgreSQL {
		return statement
	}
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprintf("$%d", n), 1)
	}
	return statement
}
