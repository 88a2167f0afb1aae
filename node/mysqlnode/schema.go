package mysqlnode

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// ours is the comment of the tables, by which they are told from others of the same name.
const ours = "fenlock, format 2: not to be changed by hand"

// tables are what Migrate makes. Columns of bytes have no character set, so that no
// collation takes two names for one.
var tables = []struct{ name, columns string }{
	{"fenlock_meta", `
	id      TINYINT    NOT NULL PRIMARY KEY,
	format  INT        NOT NULL,
	version BIGINT     NOT NULL,
	made    BIGINT     NOT NULL,
	ahead   BIGINT     NOT NULL,
	facts   MEDIUMBLOB NOT NULL`},
	{"fenlock_stripes", `
	stripe  SMALLINT   NOT NULL PRIMARY KEY,
	version BIGINT     NOT NULL,
	token   BIGINT     NOT NULL,
	turns   BIGINT     NOT NULL,
	leases  MEDIUMBLOB NOT NULL,
	waiters MEDIUMBLOB NOT NULL,
	notices BLOB       NOT NULL,
	KEY turns (turns)`},
	{"fenlock_listeners", `
	client     BINARY(32)     NOT NULL PRIMARY KEY,
	connection BIGINT         NOT NULL,
	server     VARBINARY(700) NOT NULL,
	started    BIGINT         NOT NULL,
	account    VARBINARY(400) NOT NULL,
	seen       BIGINT         NOT NULL`},
}

// now is the time for what is made. As the first version of a row it is one that no row had
// that was there before.
const now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// digits is a table of the numbers 0 to 15.
var digits = func() string {
	var b strings.Builder
	for i := range 16 {
		if i > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %d AS d", i)
	}
	return "(" + b.String() + ")"
}()

// statements are the statements of Schema.
func statements() (all []string) {
	for _, t := range tables {
		all = append(all, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s\n) ENGINE=InnoDB COMMENT='%s'",
			t.name, t.columns, ours))
	}
	return append(all,
		fmt.Sprintf("INSERT IGNORE INTO fenlock_stripes (stripe, version, token, turns, leases, waiters, notices)\n"+
			"SELECT a.d + 16 * b.d + 256 * c.d, "+now+", 0, 0, x'', x'', x''\nFROM %s AS a,\n%[1]s AS b,\n%[1]s AS c", digits),
		fmt.Sprintf("INSERT IGNORE INTO fenlock_meta (id, format, version, made, ahead, facts)\n"+
			"VALUES (1, %d, 0, "+now+", 0, '{}')", format))
}

// Schema returns the statements that make the tables, each with a semicolon at its end, for a user
// that may create tables. They do nothing to tables that are there.
func (n *Node) Schema() string { return strings.Join(statements(), ";\n\n") + ";\n" }

// Migrate makes the tables that are missing, in the database that the node's connections use. It
// needs the rights CREATE, SELECT, INSERT and UPDATE. It may be called again, and by several at
// once; what is there stays. Nothing is made if there are tables of the same name that are not
// fenlock's, that are not InnoDB's, or that are of another format. The error matches
// node.ErrMisconfigured then.
//
// New tables have their node out for the group's MaxTTL, as others may have used tables
// that were there before. The same is done where some of the 4,096 rows of fenlock_stripes
// had been deleted, and are made anew.
func (n *Node) Migrate(ctx context.Context) error {
	return n.Fail("migrate", n.migrate(ctx), ctx, n.Life())
}

func (n *Node) migrate(ctx context.Context) error {
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = look(ctx, conn, n.own)
	if err != nil {
		return err
	}
	there, err := existing(ctx, conn)
	if err != nil {
		return err
	}
	if slices.Contains(there, "fenlock_meta") {
		if err := checkFormat(ctx, conn); err != nil {
			return err
		}
	}
	if _, err := conn.ExecContext(ctx, `SET timestamp = DEFAULT`); err != nil { // a new table is as old as that says
		return err
	}
	all := statements()
	for i, t := range tables {
		if slices.Contains(there, t.name) {
			continue // it would only be a warning, and needs the right all the same
		}
		if _, err := conn.ExecContext(ctx, all[i]); err != nil {
			return err
		}
	}
	registers, facts := all[len(tables)], all[len(tables)+1]
	var rows, made int
	if err := conn.QueryRowContext(ctx,
		`SELECT (SELECT COUNT(*) FROM fenlock_stripes), (SELECT COUNT(*) FROM fenlock_meta)`).Scan(&rows, &made); err != nil {
		return err
	}
	if rows < node.Stripes {
		if made > 0 {
			// If they were deleted, what is remembered is gone. This comes first: no client may
			// vote on new rows and take them for the old ones.
			if _, err := conn.ExecContext(ctx, fmt.Sprintf(`UPDATE fenlock_meta SET version = %d, facts = '{}',
				made = %s WHERE id = 1`, random(), now)); err != nil {
				return err
			}
		}
		if _, err := conn.ExecContext(ctx, registers); err != nil {
			return err
		}
	}
	if made == 0 {
		_, err = conn.ExecContext(ctx, facts)
	}
	return err
}

// existing returns the tables that are there, and refuses those that are not fenlock's. See also
// locate.
func existing(ctx context.Context, conn *sql.Conn) (there []string, err error) {
	var name, comment string
	err = each(ctx, conn, `SELECT LOWER(TABLE_NAME), COALESCE(TABLE_COMMENT, '') FROM information_schema.TABLES
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('fenlock_meta', 'fenlock_stripes', 'fenlock_listeners')`, func() error {
		if !strings.HasPrefix(comment, "fenlock, format ") {
			return engine.Misconfiguredf(
				"the database has a table %s that is not fenlock's: use a database of its own for the locks", name)
		}
		there = append(there, name)
		return nil
	}, &name, &comment)
	return there, err
}

// checkFormat refuses tables that this program does not know.
func checkFormat(ctx context.Context, conn *sql.Conn) error {
	var found sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT MAX(format) FROM fenlock_meta`).Scan(&found); err != nil {
		return err
	}
	if found.Valid && found.Int64 != format {
		return engine.Misconfiguredf("%w", formatError(found.Int64))
	}
	return nil
}
