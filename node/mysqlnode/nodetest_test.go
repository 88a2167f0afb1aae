package mysqlnode_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/mysqlnode"
	"github.com/fenlock/fenlock/nodetest"
)

func TestConformance(t *testing.T) {
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	take(t, n, "first")
	run(t, s, `UPDATE fenlock_meta SET version = version + 1, facts = JSON_REMOVE(facts, '$.members')`)
	n.Close()
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		// The suite expects a store that was never used, and a node that records no group.
		// New tables for each rule would take most of its time.
		run(t, s, `UPDATE fenlock_stripes SET version = version + 1, token = 0, leases = '', waiters = '', notices = '', turns = 0`,
			`DELETE FROM fenlock_listeners`)
		return nodetest.Harness{Node: ready(t, s), Other: ready(t, s), Wait: wait}
	})
}

// wait is a sleep for leases to end: they may be longer by what clocks may differ.
func wait(d time.Duration) { time.Sleep(d + mysqlnode.Slack) }

// maxTTL is the longest lease of the groups of one that tests make.
const maxTTL = 200 * 365 * 24 * time.Hour

// clear removes all tables.
func clear(t testing.TB, s *testserver.MariaDB) {
	t.Helper()
	run(t, s, `DROP TABLE IF EXISTS fenlock_meta, fenlock_stripes, fenlock_listeners`)
}

// run executes statements as root.
func run(t testing.TB, s *testserver.MariaDB, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// open opens a node.
func open(t testing.TB, url string) *mysqlnode.Node {
	t.Helper()
	n, err := mysqlnode.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// ready opens a node on a server, in a new group of one that is admitted.
func ready(t testing.TB, s *testserver.MariaDB) *mysqlnode.Node {
	t.Helper()
	return made(t, s, maxTTL, true)
}

// durable makes tables as Migrate does, of which a crash loses nothing, and returns the server.
func durable(t testing.TB, s *testserver.MariaDB) *testserver.MariaDB {
	t.Helper()
	if err := open(t, s.URL()).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// made opens a node on a server, in a group of one. If there are no tables, it makes some that are
// not logged.
func made(t testing.TB, s *testserver.MariaDB, maxTTL time.Duration, isNew bool) *mysqlnode.Node {
	t.Helper()
	n := open(t, s.URL())
	var there int
	query(t, s, `SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'fenlock_stripes'`, &there)
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if there == 0 { // not those of durable
		run(t, s, `ALTER TABLE fenlock_stripes ENGINE=MyISAM`)
	}
	join(t, n, maxTTL, isNew)
	return n
}

func join(t testing.TB, n *mysqlnode.Node, maxTTL time.Duration, isNew bool) {
	t.Helper()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: isNew}); err != nil {
		t.Fatal(err)
	}
}

var holders atomic.Int64

// request is one holder's request, with a lease of two minutes.
func request(op node.Op, name string) node.Request {
	return node.Request{Op: op, Name: name, Holder: node.Holder(fmt.Sprintf("%032d:holder", holders.Add(1))),
		TTL: 2 * time.Minute}
}

// as is the request for another operation, or another TTL.
func as(op node.Op, r node.Request, ttl ...time.Duration) node.Request {
	r.Op = op
	if len(ttl) > 0 {
		r.TTL = ttl[0]
	}
	return r
}

// take acquires a name.
func take(t testing.TB, n node.Node, name string) node.Request {
	t.Helper()
	r := request(node.Acquire, name)
	r.Token = want(t, node.Granted)(n.Do(t.Context(), r)).Register
	return r
}

// listen has a client listen, and returns what it is told.
func listen(t testing.TB, n *mysqlnode.Node, client string) <-chan string {
	t.Helper()
	told := make(chan string, 10)
	if err := n.Listen(t.Context(), client, func(notice string) { told <- notice }); err != nil {
		t.Fatal(err)
	}
	return told
}

// tells checks what a client is told next.
func tells(t testing.TB, told <-chan string, want string) {
	t.Helper()
	select {
	case got := <-told:
		if got != want {
			t.Fatalf("told %q; want %q", got, want)
		}
	case <-time.After(3 * time.Minute):
		t.Fatalf("told nothing; want %q", want)
	}
}

// want returns a check of an operation's result, for use around its call.
func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("%+v, %v; want %v", a, err, status)
		}
		return a
	}
}

// problem checks what an error says.
func problem(t testing.TB, err error, says ...string) {
	t.Helper()
	for _, word := range says {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v; want an error with %q", err, word)
		}
	}
}

// refused checks an error of a request that was not sent, since something has to be mended.
func refused(t testing.TB, err error, says ...string) {
	t.Helper()
	if problem(t, err, says...); !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%v", err)
	}
}

// query reads one value as root.
func query(t testing.TB, s *testserver.MariaDB, text string, to any) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(text).Scan(to); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
