//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// MySQL is MariaDB. If it need not wait for the disk, each start costs as much as a crash
// may have: that it was none is not known.
var MySQL = &Engine{
	Name: "mysql", TTL: TTL, WallClock: true, preloads: true,
	Crash: func(p Persistence) Loss {
		if p == Always {
			return Nothing
		}
		return Registers
	},
	Start: func(p Persistence) Loss {
		if p == Always {
			return Nothing
		}
		return Leases
	},
	start: func(t testing.TB, p Persistence, environment []string) Server {
		return mariadb{testserver.StartMariaDBWith(t, environment, fmt.Sprint("innodb-flush-log-at-trx-commit=", flushes[p]))}
	},
	url: func(_, through string, node int) string {
		return fmt.Sprintf("mysql://root@%s/locks?name=%d", through, node)
	},
	prepare: func(m *Member, p Persistence) error {
		// A crash may cost what is new, but no tables: those were made long ago.
		const set = "SET GLOBAL innodb_flush_log_at_trx_commit = "
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		return errors.Join(m.Exec(ctx, set+"1"), migrate(m, p), m.Exec(ctx, fmt.Sprint(set, flushes[p])))
	},
	database: func(server string) (driver, source string) { return "mysql", "root@tcp(" + server + ")/locks" },
	endSessions: `BEGIN NOT ATOMIC
		FOR p IN (SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND user = 'root') DO
			BEGIN
				DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; -- it has ended meanwhile
				KILL p.id;
			END;
		END FOR;
	END`,
	drop:     []string{`DROP DATABASE IF EXISTS locks`, `CREATE DATABASE locks`},
	readOnly: func(on bool) []string { return []string{fmt.Sprintf("SET GLOBAL read_only = %v", on)} },
	normal: func(m *Member) error {
		return again(Patience, func(ctx context.Context) error {
			return m.Exec(ctx, `BEGIN NOT ATOMIC IF @@read_only THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it is read only'; END IF; END`)
		})
	},
}

// flushes is innodb_flush_log_at_trx_commit.
var flushes = map[Persistence]int{Always: 1, Everysec: 2, Off: 0}

// mariadb is a server of MariaDB.
type mariadb struct{ *testserver.MariaDB }

func (m mariadb) Restart() { m.MariaDB.Restart() }
