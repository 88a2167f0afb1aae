package sqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/fenlock/fenlock/node"
)

// format is the version of the tables. A program that finds a larger one must not
// touch them: it does not know what they promise.
//
// Since 2, a lease has an origin, and since 3 its holder's token. Leases of before stay
// as they are: their holders are programs of that time, which do not look at it.
const format = 3

// Names and holders are BLOBs, since any bytes are allowed in them and they are
// equal only if all bytes are. Times are integers, in milliseconds on the clock
// of the boot.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS fenlock_meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS fenlock_leases (
		name    BLOB PRIMARY KEY NOT NULL,
		holder  BLOB NOT NULL,
		expires INTEGER NOT NULL,
		boot    TEXT NOT NULL,
		origin  INTEGER NOT NULL DEFAULT 0,
		token   INTEGER NOT NULL DEFAULT 0
	) WITHOUT ROWID`,
	`CREATE INDEX IF NOT EXISTS fenlock_leases_expires ON fenlock_leases (expires)`,
	`CREATE TABLE IF NOT EXISTS fenlock_registers (stripe INTEGER PRIMARY KEY NOT NULL, token INTEGER NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS fenlock_lines (
		name    BLOB PRIMARY KEY NOT NULL,
		expires INTEGER NOT NULL,
		boot    TEXT NOT NULL
	) WITHOUT ROWID`,
	`CREATE INDEX IF NOT EXISTS fenlock_lines_expires ON fenlock_lines (expires)`,
	`CREATE TABLE IF NOT EXISTS fenlock_waiters (
		name   BLOB NOT NULL,
		stamp  INTEGER NOT NULL,
		waiter TEXT NOT NULL,
		PRIMARY KEY (name, stamp, waiter)
	) WITHOUT ROWID`,
	`CREATE UNIQUE INDEX IF NOT EXISTS fenlock_waiters_once ON fenlock_waiters (name, waiter)`,
}

// statements are prepared once; database/sql prepares them again on a
// connection that replaces a broken one.
type statements struct {
	lease, register, page, waiting          *sql.Stmt
	setLease, dropLease, setRegister, purge *sql.Stmt

	queue, head, stamp, before, all                                       *sql.Stmt
	setQueue, dropQueue, clear, insert, remove, purgeWaiters, purgeQueues *sql.Stmt
}

// prepare makes the tables and the statements.
func (n *Node) prepare(ctx context.Context) error {
	if err := n.transact(ctx, writing, (*step).migrate); err != nil {
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
		{&n.stmt.lease, `SELECT holder, expires, boot, origin, token FROM fenlock_leases WHERE name = ?`},
		{&n.stmt.register, `SELECT token FROM fenlock_registers WHERE stripe = ?`},
		{&n.stmt.page, `SELECT name, holder, expires, origin, token FROM fenlock_leases
			WHERE name >= ? AND name > ? AND substr(name, 1, ?) = ? AND expires > ? AND boot = ? ORDER BY name LIMIT ?`},
		{&n.stmt.waiting, `SELECT stamp, waiter FROM fenlock_waiters WHERE name = ? ORDER BY stamp, waiter LIMIT ?`},
		{&n.stmt.setLease, `INSERT INTO fenlock_leases (name, holder, expires, boot, origin, token) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires, boot = excluded.boot,
				origin = excluded.origin, token = excluded.token`},
		{&n.stmt.dropLease, `DELETE FROM fenlock_leases WHERE name = ?`},
		{&n.stmt.setRegister, `INSERT INTO fenlock_registers (stripe, token) VALUES (?, ?)
			ON CONFLICT (stripe) DO UPDATE SET token = excluded.token`},
		{&n.stmt.purge, `DELETE FROM fenlock_leases WHERE name IN
			(SELECT name FROM fenlock_leases WHERE expires <= ? ORDER BY expires LIMIT ?)`},
		{&n.stmt.queue, `SELECT expires, boot FROM fenlock_lines WHERE name = ?`},
		{&n.stmt.head, `SELECT waiter FROM fenlock_waiters WHERE name = ? ORDER BY stamp, waiter LIMIT 1`},
		{&n.stmt.stamp, `SELECT stamp FROM fenlock_waiters WHERE name = ? AND waiter = ?`},
		{&n.stmt.before, `SELECT count(*) FROM fenlock_waiters WHERE name = ? AND (stamp, waiter) < (?, ?)`},
		{&n.stmt.all, `SELECT count(*) FROM fenlock_waiters WHERE name = ?`},
		{&n.stmt.setQueue, `INSERT INTO fenlock_lines (name, expires, boot) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET expires = excluded.expires, boot = excluded.boot`},
		{&n.stmt.dropQueue, `DELETE FROM fenlock_lines WHERE name = ?1
			AND NOT EXISTS (SELECT 1 FROM fenlock_waiters WHERE name = ?1)`},
		{&n.stmt.clear, `DELETE FROM fenlock_waiters WHERE name = ?`},
		{&n.stmt.insert, `INSERT INTO fenlock_waiters (name, stamp, waiter) VALUES (?, ?, ?)`},
		{&n.stmt.remove, `DELETE FROM fenlock_waiters WHERE name = ? AND waiter = ?`},
		{&n.stmt.purgeWaiters, `DELETE FROM fenlock_waiters WHERE (name, waiter) IN
			(SELECT w.name, w.waiter FROM
				(SELECT name FROM fenlock_lines WHERE expires <= ?1 ORDER BY expires LIMIT ?2) AS l
				CROSS JOIN fenlock_waiters AS w ON w.name = l.name LIMIT ?2)`},
		{&n.stmt.purgeQueues, `DELETE FROM fenlock_lines WHERE name IN
			(SELECT name FROM fenlock_lines WHERE expires <= ?1 ORDER BY expires LIMIT ?2)
			AND NOT EXISTS (SELECT 1 FROM fenlock_waiters AS w WHERE w.name = fenlock_lines.name)`},
	} {
		prepared, err := n.db.PrepareContext(ctx, s.text)
		*s.to, errs = prepared, append(errs, err)
	}
	return errors.Join(errs...)
}

// migrate brings the tables to this format, and drops leases and queues of an
// earlier boot, whose expiry says nothing on today's clock.
func (s *step) migrate() {
	exec := func(text string, args ...any) (rows int64) {
		if s.err == nil {
			var done sql.Result
			if done, s.err = s.tx.ExecContext(s.ctx, text, args...); s.err == nil {
				rows, s.err = done.RowsAffected()
			}
		}
		return rows
	}
	has := func(table string) (is bool) {
		if s.err == nil {
			const query = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?`
			s.err = s.tx.QueryRowContext(s.ctx, query, table).Scan(&is)
		}
		return is
	}
	made, found := has("fenlock_meta"), format
	if made && s.err == nil {
		found, s.err = checkFormat(s.ctx, s.tx)
	}
	if s.changed = !made || !has("fenlock_waiters"); s.changed {
		for _, text := range schema {
			exec(text)
		}
	}
	if !made {
		exec(`INSERT INTO fenlock_meta (key, value) VALUES ('format', ?)`, strconv.Itoa(format))
		return
	}
	if found < format {
		s.changed = true
		if found < 2 {
			exec(`ALTER TABLE fenlock_leases ADD COLUMN origin INTEGER NOT NULL DEFAULT 0`)
		}
		exec(`ALTER TABLE fenlock_leases ADD COLUMN token INTEGER NOT NULL DEFAULT 0`)
		exec(`UPDATE fenlock_meta SET value = ? WHERE key = 'format'`, strconv.Itoa(format))
	}
	boot := s.node.boot
	dropped := exec(`DELETE FROM fenlock_leases WHERE boot <> ?`, boot)
	exec(`DELETE FROM fenlock_waiters WHERE name IN (SELECT name FROM fenlock_lines WHERE boot <> ?)`, boot)
	dropped += exec(`DELETE FROM fenlock_lines WHERE boot <> ?`, boot)
	s.changed = s.changed || dropped > 0
}

// checkFormat returns the format, and refuses tables that this program does not know.
func checkFormat(ctx context.Context, tx *sql.Tx) (found int, err error) {
	var text string
	if err := tx.QueryRowContext(ctx, `SELECT value FROM fenlock_meta WHERE key = 'format'`).Scan(&text); err != nil {
		return 0, fmt.Errorf("reading the format of the tables: %w", err)
	}
	switch found, err = strconv.Atoi(text); {
	case err != nil || found < 1:
		return 0, fmt.Errorf("the tables have the format %q, which no fenlock wrote", text)
	case found > format:
		return 0, fmt.Errorf("%w: the tables were made by a newer fenlock (format %d; this program knows up to %d): update this program",
			node.ErrMisconfigured, found, format)
	}
	return found, nil
}
