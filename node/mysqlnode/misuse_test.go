package mysqlnode_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/mysqlnode"
)

// What is wrong with the tables is said, and nothing is made before it is mended.
func TestTables(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := open(t, s.URL())
	join(t, n, maxTTL, true)
	fails := func(says ...string) {
		t.Helper()
		_, err := n.Do(t.Context(), request(node.Acquire, "a"))
		refused(t, err, append(says, n.String())...)
		if _, err := n.Examine(t.Context(), node.Look{}); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("examined: %v", err)
		}
	}
	refuses := func(says ...string) {
		t.Helper()
		err := n.Migrate(t.Context())
		if problem(t, err, append(says, n.String())...); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%v", err)
		}
	}
	fails("1146", "run fenlock migrate")
	for table, statement := range map[string]string{
		"fenlock_meta":      `CREATE TABLE fenlock_meta (id INT)`,
		"fenlock_stripes":   `CREATE TABLE fenlock_stripes (stripe INT) COMMENT='mine'`,
		"fenlock_listeners": `CREATE VIEW fenlock_listeners AS SELECT 1`,
	} {
		run(t, s, statement)
		refuses(table, "not fenlock's")
		run(t, s, `DROP TABLE IF EXISTS fenlock_meta, fenlock_stripes`, `DROP VIEW IF EXISTS fenlock_listeners`)
	}
	run(t, s, `CREATE TABLE fenlock_meta (id INT) ENGINE=MyISAM COMMENT='fenlock, format 1'`)
	refuses("MyISAM", "only InnoDB")
	clear(t, s)

	// By hand, and again by the program.
	var statements []string
	for statement := range strings.SplitSeq(n.Schema(), ";\n") {
		if strings.TrimSpace(statement) != "" {
			statements = append(statements, statement)
		}
	}
	run(t, s, statements...)
	lock := take(t, n, "a")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := n.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, lock)))

	var facts string
	query(t, s, `SELECT HEX(facts) FROM fenlock_meta`, &facts)
	run(t, s, `UPDATE fenlock_meta SET format = 1, version = version + 1`)
	fails("format 1", "format 2")
	refuses("format 1", "format 2")
	run(t, s, `UPDATE fenlock_meta SET format = 2, facts = 'x', version = version + 1`)
	fails("not fenlock")
	run(t, s, `UPDATE fenlock_meta SET facts = x'`+facts+`', version = version + 1`)
	run(t, s, fmt.Sprintf(`UPDATE fenlock_stripes SET leases = x'ff' WHERE stripe = %d`, node.Stripe("a")))
	fails2 := func(says string) {
		t.Helper()
		_, err := n.Do(t.Context(), request(node.Acquire, "a"))
		if problem(t, err, says); !errors.Is(err, node.ErrMisconfigured) {
			t.Errorf("%v", err)
		}
	}
	fails2("not fenlock")
	run(t, s, fmt.Sprintf(`UPDATE fenlock_stripes SET leases = '', token = -1 WHERE stripe = %d`, node.Stripe("a")))
	fails2("register is -1")
	if e, err := n.Examine(t.Context(), node.Look{Thorough: true}); err != nil ||
		!strings.Contains(fmt.Sprint(e.Findings), "1 rows that no fenlock writes") {
		t.Errorf("%+v, %v", e, err)
	}
	run(t, s, fmt.Sprintf(`DELETE FROM fenlock_stripes WHERE stripe = %d`, node.Stripe("a")))
	if r, err := n.Registers(t.Context()); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%+v, %v; registers are missing", r, err)
	}
	run(t, s, `TRUNCATE fenlock_stripes`)
	fails("emptied", "run fenlock migrate")

	// What was forgotten is waited for, although the facts were still there.
	other := open(t, s.URL())
	if err := other.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	join(t, other, time.Hour, false)
	a := want(t, node.Rejoining)(other.Do(t.Context(), as(node.Acquire, request(node.Acquire, "a"), time.Minute)))
	if a.Absence.Cause != node.Unused || a.Absence.Wait < 59*time.Minute {
		t.Errorf("%+v", a)
	}
}

// The rights that docs/mysql.md names are enough, and each that is missing is named.
func TestRights(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	ready(t, s)
	run(t, s, `CREATE USER 'locks user'@'%' IDENTIFIED BY 'pass:word@'`)
	url := "mysql://locks%20user:pass%3Aword%40@" + s.Addr() + "/locks"
	fails := func(says string) {
		t.Helper()
		n := open(t, url)
		join(t, n, maxTTL, true)
		_, err := n.Do(t.Context(), request(node.Acquire, "a"))
		if problem(t, err, says); !errors.Is(err, node.ErrMisconfigured) || strings.Contains(err.Error(), "pass:") {
			t.Errorf("%v", err)
		}
	}
	fails("1044")
	run(t, s, `GRANT SELECT ON locks.fenlock_meta TO 'locks user'@'%'`)
	fails("fenlock_stripes")
	run(t, s, `GRANT SELECT ON locks.fenlock_stripes TO 'locks user'@'%'`)
	fails("1142") // to write what it is admitted as
	run(t, s, `GRANT UPDATE ON locks.fenlock_meta TO 'locks user'@'%'`)
	fails("UPDATE command denied")
	run(t, s, `GRANT UPDATE ON locks.fenlock_stripes TO 'locks user'@'%'`)
	n := open(t, url)
	join(t, n, maxTTL, true)
	lock := take(t, n, "a")
	if err := n.Listen(t.Context(), strings.Repeat("a", 32), func(string) {}); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("listens without rights: %v", err)
	}
	run(t, s, `GRANT SELECT, INSERT, UPDATE, DELETE ON locks.fenlock_listeners TO 'locks user'@'%'`)
	waited(t, n, open2(t, url), lock)

	// A user that only looks needs less.
	run(t, s, `CREATE USER reader@'%'`, `GRANT SELECT ON locks.* TO reader@'%'`)
	reader := open(t, "mysql://reader@"+s.Addr()+"/locks")
	if l, err := reader.Inspect(t.Context(), "a"); err != nil || !l.Leased || l.Members != s.Addr()+"/locks" {
		t.Errorf("%+v, %v", l, err)
	}
	_, err := reader.Do(t.Context(), request(node.Acquire, "b"))
	if problem(t, err, "UPDATE command denied"); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%v", err)
	}
	for url, says := range map[string]string{
		"mysql://locks%20user:wrong@" + s.Addr() + "/locks": "1045",
		"mysql://root@" + s.Addr() + "/nothing":             "1049",
	} {
		_, err := open(t, url).Do(t.Context(), request(node.Acquire, "a"))
		refused(t, err, says)
	}
}

func open2(t testing.TB, url string) *mysqlnode.Node {
	n := open(t, url)
	join(t, n, maxTTL, true)
	return n
}

// waited has a waiter of one client notified by another, who has the lock.
func waited(t *testing.T, n, other *mysqlnode.Node, lock node.Request) {
	t.Helper()
	client := fmt.Sprintf("%032x", len(t.Name()))
	notified := listen(t, other, client)
	waiter := request(node.Acquire, lock.Name)
	waiter.Place = node.Place{Waiter: client + ":1:label", Stamp: 1}
	want(t, node.Held)(other.Do(t.Context(), waiter))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	tells(t, notified, client+":1")
	want(t, node.Granted)(other.Do(t.Context(), waiter))
}

// A replica is refused, whatever the user may write there.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	lock := take(t, n, "a")
	run(t, s, `SET GLOBAL read_only = 1`)
	for _, r := range []node.Request{as(node.Extend, lock), request(node.Acquire, "b")} {
		_, err := n.Do(t.Context(), r)
		refused(t, err, "read-only", "name the primary")
	}
	if e, err := n.Examine(t.Context(), node.Look{}); err == nil || e.Role != "replica" {
		t.Errorf("%+v, %v", e, err)
	}
	// It would vouch for registers that its successor has raised since.
	if r, err := n.Registers(t.Context()); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("%+v, %v", r, err)
	}
	run(t, s, `SET GLOBAL read_only = 0`)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, lock)))
}

// A server without a connection left says so; it may have one later.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t, "max-connections=10")
	ready(t, s).Close()
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var conns []*sql.Conn
	for range 20 { // and one more for a user that may do anything
		if c, err := db.Conn(t.Context()); err == nil {
			conns = append(conns, c)
		}
	}
	n := open(t, s.URL())
	join(t, n, maxTTL, true)
	_, err = n.Do(t.Context(), request(node.Acquire, "a"))
	if problem(t, err, "1040", "max_connections"); errors.Is(err, node.ErrMisconfigured) ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
	for _, c := range conns {
		c.Close()
	}
	db.Close()
	for end := time.Now().Add(3 * time.Minute); ; {
		if _, err = n.Do(t.Context(), request(node.Acquire, "a")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// Two nodes of a group on one server are one.
func TestTwoDatabasesOfOneServer(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	run(t, s, `CREATE DATABASE second`)
	first, second := open(t, s.URL()), open(t, "mysql://root@"+s.Addr()+"/second")
	for _, n := range []*mysqlnode.Node{first, second} {
		if err := n.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.Join(node.Group{Nodes: []node.Node{first, second}, MaxTTL: time.Minute, New: true}); err != nil {
			t.Fatal(err)
		}
	}
	var errs []error
	for range 2 {
		for _, n := range []*mysqlnode.Node{first, second} {
			_, err := n.Do(t.Context(), as(node.Acquire, request(node.Acquire, "c"), time.Second))
			errs = append(errs, err)
		}
	}
	problem(t, errors.Join(errs...), "the same server as the node")
}

// Whatever the connections of a pool are set to, the clock is the server's and a name is the name.
// The server is admitted over them, and known by the same name. What only the sessions of the pool
// are kept from is not said of the server.
func TestPools(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	ready(t, s)
	lockers := 0
	for name, c := range map[string]struct {
		parameters string
		conns      int
		refused    string
	}{
		"plain":       {"", 5, ""},
		"timestamp":   {"timestamp=1000000000&time_zone='%2B05:30'", 5, ""},
		"summer time": {"time_zone='SYSTEM'&parseTime=true&loc=Europe%2FBerlin", 5, ""},
		"everything":  {"clientFoundRows=true&interpolateParams=true&multiStatements=true&columnsWithAlias=true&collation=utf8mb4_general_ci", 5, ""},
		"modes":       {"sql_mode='ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'&tx_isolation='SERIALIZABLE'", 5, ""},
		"repeatable":  {"tx_isolation='REPEATABLE-READ'", 2, ""},
		"uncommitted": {"tx_isolation='READ-UNCOMMITTED'", 5, ""},
		"autocommit":  {"autocommit=0", 5, "autocommit"},
		"no strings":  {"sql_mode='ORACLE,EMPTY_STRING_IS_NULL'", 5, ""},
		"safe":        {"sql_safe_updates=1", 5, ""},
		"limited":     {"sql_select_limit=1", 5, "sql_select_limit"},
		"few rows":    {"sql_select_limit=100", 5, ""},
		"old letters": {"charset=latin1", 5, ""},
		"for reading": {"tx_read_only=1", 5, "tx_read_only"},
	} {
		t.Run(name, func(t *testing.T) {
			n, db := pooled(t, s, "locks", c.parameters)
			db.SetMaxOpenConns(c.conns)
			join(t, n, maxTTL, true)
			lockers++
			lock := request(node.Acquire, fmt.Sprint("pool ", lockers))
			a, err := n.Do(t.Context(), lock)
			if c.refused != "" {
				if problem(t, err, c.refused); !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
					strings.Contains(err.Error(), "replica") {
					t.Errorf("%+v, %v", a, err)
				}
				if name != "for reading" { // it would not be committed, or not seen
					problem(t, n.Migrate(t.Context()), c.refused)
				}
				problem(t, n.Listen(t.Context(), strings.Repeat("a", 32), func(string) {}), c.refused)
				return
			}
			want(t, node.Granted)(a, err)
			listed := false
			if err := n.List(t.Context(), lock.Name, func(node.Lease) bool { listed = true; return true }); err != nil ||
				!listed {
				t.Errorf("%v; it is not listed", err)
			}
			plain := ready(t, s)
			if l, err := plain.Inspect(t.Context(), lock.Name); err != nil || l.Remaining <= time.Minute ||
				l.Remaining > lock.TTL {
				t.Errorf("%+v, %v", l, err)
			}
			want(t, node.Held)(plain.Do(t.Context(), request(node.Acquire, lock.Name)))
			waited(t, n, plain, lock)
			f, err := n.Store().Facts(t.Context())
			if err != nil || !f.Votes {
				t.Fatalf("%+v, %v", f, err)
			}
			if done, err := n.Store().Note(t.Context(), f); err != nil || !done || leases(t, s) != 0 {
				t.Fatalf("%v, %v", done, err)
			}
			if f, err = n.Store().Facts(t.Context()); err != nil || !f.Counted || f.Out > time.Minute {
				t.Fatalf("%+v, %v", f, err)
			}
			if done, err := n.Store().Mark(t.Context(), f, n.Admission().Terms(), nil); err != nil || !done {
				t.Fatalf("%v, %v", done, err)
			}
			want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, lock.Name)))
			if err := n.Close(); err != nil || db.Ping() != nil {
				t.Errorf("%v: a pool that is not its own is closed: %v", err, db.Ping())
			}
			if _, err := n.Do(t.Context(), lock); err == nil {
				t.Error("works after Close")
			}
		})
	}
	one, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	one.SetMaxOpenConns(1)
	_, err = mysqlnode.New(one, "name")
	problem(t, err, "at least two")
}

// What is written on a connection that was left in a transaction is not committed, and nothing is
// granted there.
func TestLeftInTransaction(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	plain := ready(t, s)
	n, db := pooled(t, s, "locks", "")
	join(t, n, maxTTL, true)
	take(t, n, "before") // the connection has been looked at
	if _, err := db.Exec(`BEGIN`); err != nil {
		t.Fatal(err)
	}
	_, err := n.Do(t.Context(), request(node.Acquire, "a"))
	refused(t, err, "left a connection of the pool in a transaction")
	problem(t, n.Listen(t.Context(), strings.Repeat("a", 32), func(string) {}), "in a transaction")
	if _, err := db.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	take(t, n, "a")
	want(t, node.Held)(plain.Do(t.Context(), request(node.Acquire, "a")))
}

// 64 goroutines get their turn on five connections, one of which is a listener's.
func TestSmallPool(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	ready(t, s)
	var lockers []*fenlock.Locker
	for range 2 {
		db, err := sql.Open("mysql", s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(5)
		n, err := mysqlnode.New(db, s.Addr()+"/locks")
		if err != nil {
			t.Fatal(err)
		}
		l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, NewServers: true, NodeTimeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		lockers = append(lockers, l)
	}
	var all sync.WaitGroup
	var last, busy [8]atomic.Uint64
	for i := range 64 {
		all.Go(func() {
			for k := range 5 {
				which := (i + k) % len(busy)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := lockers[i%2].Do(ctx, fmt.Sprint("name ", which), func(_ context.Context, token fenlock.Token) error {
					holders, before := busy[which].Add(1), last[which].Swap(uint64(token))
					if holders > 1 || uint64(token) <= before {
						t.Errorf("name %d: %d holders, token %d after %d", which, holders, token, before)
					}
					time.Sleep(time.Millisecond)
					busy[which].Store(0)
					return nil
				})
				if cancel(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Those who wait leave a connection to those who have the lock, however many share a node.
func TestListenersLeaveConnections(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	own := ready(t, s)
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(3)
	for _, c := range []struct { // the first one keeps the lock that others are parked on
		name    string
		nodes   func() *mysqlnode.Node
		refused int
	}{
		{"own", func() *mysqlnode.Node { return own }, 0},
		{"shared", func() *mysqlnode.Node {
			n, err := mysqlnode.New(db, s.Addr()+"/locks")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { n.Close() })
			join(t, n, maxTTL, true)
			return n
		}, 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := 0
			var n *mysqlnode.Node
			for i := range 20 {
				n = c.nodes()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				err := n.Listen(ctx, fmt.Sprintf("%032x", i), func(string) {})
				cancel()
				if err != nil {
					refused++
					problem(t, err, "SetMaxOpenConns")
				}
			}
			if refused != c.refused {
				t.Errorf("%d were refused; want %d", refused, c.refused)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			want(t, node.Granted)(n.Do(ctx, request(node.Acquire, c.name)))
		})
	}
}

// Close ends what is under way, also where the server does not answer.
func TestCloseUnderWay(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	take(t, n, "a")
	s.Pause()
	ended := make(chan error, 1)
	go func() {
		_, err := n.Do(context.Background(), request(node.Acquire, "b"))
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // it is under way, or does not begin
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		problem(t, err, "the node is closed")
	case <-time.After(3 * time.Minute):
		t.Error("it goes on")
	}
	s.Resume()
}
