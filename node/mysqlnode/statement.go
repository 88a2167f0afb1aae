package mysqlnode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// row is what an operation reads.
type row struct {
	cas.Record
	version  int64 // random: another one after each write, so that none comes back
	meta     int64 // the version of fenlock_meta
	ahead    int64 // no register of the node is larger
	now      time.Duration
	here     bool   // it is the server that was looked at
	session  int64  // the connection's number
	flushing string // as in session
}

// read reads the row of a stripe, and what has to be known of the server and the
// connection with it, in one statement.
func (s *session) read(ctx context.Context, conn *sql.Conn, number int) (row, error) {
	query := fmt.Sprintf(`SELECT m.version, m.ahead,
		s.version, s.token, s.leases, s.waiters, s.notices, s.turns, %s,
		@@global.read_only, @@autocommit, %s, %s, CONNECTION_ID(), %s
		FROM fenlock_meta AS m LEFT JOIN fenlock_stripes AS s ON s.stripe = %d WHERE m.id = 1`, clock, s.inTransaction(), s.same, flushing, number)
	for range 3 {
		var r row
		var version, token, turns sql.NullInt64
		var at reading
		var readOnly string
		var autocommit, transaction int
		err := conn.QueryRowContext(ctx, query).Scan(&r.meta, &r.ahead, &version, &token, &r.Leases, &r.Queues, &r.Notices,
			&turns, &at.began, &at.since, &readOnly, &autocommit, &transaction, &r.here, &r.session, &r.flushing)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return r, engine.Misconfiguredf("the table fenlock_meta is empty: %s", runMigrate)
		case err != nil:
			return r, err
		case !version.Valid:
			return r, engine.Misconfiguredf("the row of stripe %d is missing in fenlock_stripes, which has been emptied: %s",
				number, runMigrate)
		case readOnly != "0" && readOnly != "OFF": // a word since MariaDB 12
			return r, engine.Misconfiguredf(
				"the server is read-only (read_only): it is a replica, or a primary that is being replaced; name the primary")
		case token.Int64 < 0 || token.Int64 > int64(fence.MaxToken):
			return r, engine.Misconfiguredf("%w: its register is %d", cas.ErrDamaged, token.Int64)
		}
		if err := committing(autocommit, transaction); err != nil {
			return r, err
		}
		r.version, r.Register, r.Told = version.Int64, fence.Token(token.Int64), time.Duration(turns.Int64)*time.Microsecond
		var ok bool
		if r.now, ok = at.time(); ok {
			return r, nil
		}
		if _, err := conn.ExecContext(ctx, `SET timestamp = DEFAULT`); err != nil {
			return r, err
		}
	}
	return row{}, errRetimed
}

// each reads the rows of a query into variables, one after the other, and calls a function after
// each.
func each(ctx context.Context, conn *sql.Conn, query string, read func() error, into ...any) error {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := read(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan is each for several stripes. While the rows are sent, a table that is not logged is locked
// for all writes. So a client that does not take them, stopped or cut off, loses its connection.
func (s *session) scan(ctx context.Context, conn *sql.Conn, query string, read func() error, into ...any) error {
	if s.unlogged {
		query = s.with(`net_write_timeout=2`, query, ``)
	}
	return each(ctx, conn, query, read, into...)
}

// changed executes a statement, and reports whether it has changed anything.
func changed(ctx context.Context, conn *sql.Conn, statement string) (is bool, err error) {
	result, err := conn.ExecContext(ctx, statement)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

// write writes a row if its version is still the one that was read, and if a condition says so: see
// session.here. The mark has to be the one that was read too, and the register one that was written
// ahead. It reports whether it was written.
func write(ctx context.Context, conn *sql.Conn, stripe int, before cas.Record, was, meta int64, after cas.Record,
	version int64, condition string) (is bool, err error) {
	set := fmt.Sprintf(`UPDATE fenlock_stripes SET version = %d, token = %d, leases = %s`, version, uint64(after.Register),
		literal(after.Leases))
	// What has not changed is not sent: a queue may be long.
	if string(after.Queues) != string(before.Queues) {
		set += `, waiters = ` + literal(after.Queues)
	}
	if string(after.Notices) != string(before.Notices) {
		set += fmt.Sprintf(`, notices = %s, turns = %d`, literal(after.Notices), after.Told.Microseconds())
	}
	return changed(ctx, conn, fmt.Sprintf(
		`%s WHERE stripe = %d AND version = %d AND %s AND `+
			`(SELECT version FROM fenlock_meta WHERE id = 1 AND ahead >= %d) = %d`,
		set, stripe, was, condition, uint64(after.Register), meta))
}

// raiseAhead has all registers bounded by a larger number, on the disk.
func raiseAhead(ctx context.Context, conn *sql.Conn, token int64, condition string) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`UPDATE fenlock_meta SET ahead = GREATEST(ahead, %d) WHERE id = 1 AND %s`,
		token, condition))
	return err
}
