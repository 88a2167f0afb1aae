package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
)

// format is the version of the tables. A program that finds a larger one must not
// touch them: it does not know what they promise.
const format = 1

// Names and holders are BLOBs, since any bytes are allowed in them and they are
// equal only if all bytes are. Times are integers, in milliseconds on the clock
// of the boot.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS fenlock_meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS fenlock_leases (
		name    BLOB PRIMARY KEY NOT NULL,
		holder  BLOB NOT NULL,
		expires INTEGER NOT NULL,
		boot    TEXT NOT NULL
	) WITHOUT ROWID`,
	`CREATE INDEX IF NOT EXISTS fenlock_leases_expires ON fenlock_leases (expires)`,
	`CREATE TABLE IF NOT EXISTS fenlock_registers (stripe INTEGER PRIMARY KEY NOT NULL, token INTEGER NOT NULL)`,
}

// statements are prepared once; database/sql prepares them again on a
// connection that replaces a broken one.
type statements struct {
	lease, register, page                   *sql.Stmt
	setLease, dropLease, setRegister, purge *sql.Stmt
}

// prepare makes the tables and the statements.
func (n *Node) prepare(ctx context.Context) error {
	err := n.transact(ctx, writing, func(tx *sql.Tx) (bool, error) {
		return n.migrate(ctx, tx)
	})
	if err != nil {
		return err
	}
	var mode string
	if err := n.db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file cannot be switched to write-ahead logging (journal mode %q): is it on a network file system?", mode)
	}
	var errs []error
	for _, s := range []struct {
		to   **sql.Stmt
		text string
	}{
		{&n.stmt.lease, `SELECT holder, expires, boot FROM fenlock_leases WHERE name = ?`},
		{&n.stmt.register, `SELECT token FROM fenlock_registers WHERE stripe = ?`},
		{&n.stmt.page, `SELECT name, holder, expires FROM fenlock_leases WHERE name > ? AND expires > ? AND boot = ? ORDER BY name LIMIT ?`},
		{&n.stmt.setLease, `INSERT INTO fenlock_leases (name, holder, expires, boot) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires, boot = excluded.boot`},
		{&n.stmt.dropLease, `DELETE FROM fenlock_leases WHERE name = ?`},
		{&n.stmt.setRegister, `INSERT INTO fenlock_registers (stripe, token) VALUES (?, ?)
			ON CONFLICT (stripe) DO UPDATE SET token = excluded.token`},
		{&n.stmt.purge, `DELETE FROM fenlock_leases WHERE name IN
			(SELECT name FROM fenlock_leases WHERE expires <= ? ORDER BY expires LIMIT ?)`},
	} {
		prepared, err := n.db.PrepareContext(ctx, s.text)
		*s.to, errs = prepared, append(errs, err)
	}
	return errors.Join(errs...)
}

// migrate brings the tables to this format, and drops leases of an earlier
// boot, whose expiry says nothing on today's clock.
func (n *Node) migrate(ctx context.Context, tx *sql.Tx) (changed bool, err error) {
	var tables int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'fenlock_meta'`).Scan(&tables); err != nil {
		return false, err
	}
	if tables == 0 {
		for _, text := range schema {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return false, err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO fenlock_meta (key, value) VALUES ('format', ?)`, strconv.Itoa(format))
		return true, err
	}
	var text string
	if err := tx.QueryRowContext(ctx, `SELECT value FROM fenlock_meta WHERE key = 'format'`).Scan(&text); err != nil {
		return false, fmt.Errorf("reading the format of the tables: %w", err)
	}
	switch found, err := strconv.Atoi(text); {
	case err != nil || found < 1:
		return false, fmt.Errorf("the tables have the format %q, which no fenlock wrote", text)
	case found > format:
		return false, fmt.Errorf("the tables were made by a newer fenlock (format %d; this program knows up to %d): update this program", found, format)
	}
	dropped, err := tx.ExecContext(ctx, `DELETE FROM fenlock_leases WHERE boot <> ?`, n.boot)
	if err != nil {
		return false, err
	}
	rows, err := dropped.RowsAffected()
	return rows > 0, err
}
