package sqlnode

import (
	"context"
	"database/sql"
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

// prepare makes the tables, and the statements that every lock needs.
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
	return n.prepareUsual(ctx)
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
