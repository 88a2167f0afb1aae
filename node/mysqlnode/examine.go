package mysqlnode

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// Examine implements node.Examiner.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "MySQL", Member: n.String()}
	err := n.examine(ctx, look, &e)
	return e, n.Fail("examine", err, ctx, n.Life())
}

func (n *Node) examine(ctx context.Context, of node.Look, e *node.Examination) error {
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := look(ctx, conn, n.own)
	if err != nil {
		return err
	}
	if s.mariadb {
		e.Product = "MariaDB"
	}
	e.Version, e.Uptime = s.version, s.now-time.Duration(s.started)*time.Second
	if host, _, err := net.SplitHostPort(n.String()); err == nil {
		e.Address = host
	}
	set, err := pairs(ctx, conn, `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'max_connections', 'myisam_recover_options')`)
	if err != nil {
		return err
	}
	if e.Role = "primary"; set["read_only"] != "OFF" && set["read_only"] != "0" {
		e.Role = "replica"
	}
	err = engine.MeasureTrips(e, func() (shows time.Time, err error) {
		var at reading
		if err = conn.QueryRowContext(ctx, `SELECT `+clock).Scan(&at.began, &at.since); err == nil {
			if now, ok := at.time(); ok {
				shows = time.UnixMicro(now.Microseconds())
			}
		}
		return shows, err
	})
	if err != nil {
		return err
	}
	e.Findings = findings(s, set)
	f, err := factsOf(ctx, conn, s)
	if err != nil {
		return err
	}
	f.Examine(e, of.MaxTTL)
	if !of.Thorough {
		return nil
	}
	bad, err := damaged(ctx, conn, s)
	if bad > 0 {
		e.Findings = append(e.Findings,
			node.Found("registers", node.Error,
				"The table fenlock_stripes has %d rows that no fenlock writes: names of these stripes cannot be locked.", bad).
				Do("Another program wrote there. When no lock is held, drop the tables fenlock_* and run fenlock migrate; tokens then start again from the wall clock, which is larger than every one before unless the clock was set back."))
	}
	return err
}

// damaged counts the rows that cannot be used, a page at a time.
func damaged(ctx context.Context, conn *sql.Conn, s *session) (bad int, err error) {
	var token int64
	var r cas.Record
	for from := 0; from < node.Stripes && err == nil; from += pageSize {
		err = s.scan(ctx, conn, fmt.Sprintf(`SELECT token, leases, waiters FROM fenlock_stripes
		WHERE stripe >= %d AND stripe < %d AND (token <> 0 OR LENGTH(leases) > 0) LIMIT %d`, from, from+pageSize, pageSize), func() error {
			if r.Register = fence.Token(token); token < 0 || r.Check() != nil {
				bad++
			}
			return nil
		}, &token, &r.Leases, &r.Queues)
	}
	return bad, err
}

// fewConnections is how many connections a server should have at least.
const fewConnections = 50

// findings says what is wrong with a server's settings, or will be.
func findings(s *session, set map[string]string) (found []node.Finding) {
	if s.unsynced != "" && !s.galera {
		found = append(found, node.Found("durability", node.Warning,
			"A crash of the server may lose locks that it has granted (%s), so it stays out for MaxTTL after each start.",
			s.unsynced).
			Do("SET GLOBAL innodb_flush_log_at_trx_commit = 1, and sync_binlog = 1 if it has a binary log, and in its configuration file."))
	}
	if s.unlogged && set["myisam_recover_options"] == "OFF" {
		found = append(found, node.Found("durability", node.Warning,
			"After a crash of the server a person has to repair the table fenlock_stripes: myisam_recover_options is OFF.").
			Do("Set myisam_recover_options = BACKUP,QUICK, which is the default, in the server's configuration file. It cannot be set while the server runs."))
	}
	if s.galera {
		found = append(found, node.Found("galera", node.Note, "The server is a member of a Galera cluster: all its members are one node. Waiters that are connected to different members are told by looking, every few seconds."))
	}
	if n, err := strconv.Atoi(set["max_connections"]); err == nil && n < fewConnections {
		found = append(found, node.Found("connections", node.Warning,
			"The server takes %d connections. Each process keeps one while it waits for a lock.", n).
			Do("Raise max_connections."))
	}
	return found
}
