package pgnode

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
	"github.com/jackc/pgx/v5"
)

// shared is a server for the tests that do it no harm, each with a schema or a database of its own.
// The first of them starts it, and it stays until the binary ends.
var shared = sync.OnceValue(func() *testserver.Postgres {
	var server *testserver.Postgres
	if err := testserver.Try(func() error { server = testserver.StartPostgres(&outside); return nil }); err != nil {
		panic(err)
	}
	return server
})

var (
	outside testserver.Outside
	schemas atomic.Int64
)

func TestMain(m *testing.M) {
	code := m.Run()
	outside.Close()
	os.Exit(code)
}

// newSchema makes a schema of the test's own, and returns a URL that leads to it.
func newSchema(t testing.TB, server *testserver.Postgres) string {
	t.Helper()
	u := in(server.DSN(), fmt.Sprintf("test_%d", schemas.Add(1)))
	if err := open(t, u).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u
}

// in returns a URL with another schema.
func in(rawURL, schema string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Set("schema", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// open opens a node that the test closes.
func open(t testing.TB, rawURL string) *Node {
	t.Helper()
	n, err := Open(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

const maxTTL = time.Minute

// alone opens a node that is the whole group.
func alone(t testing.TB, rawURL string) *Node {
	t.Helper()
	return join(t, open(t, rawURL), maxTTL, true)
}

// join has a node be a group of its own.
func join(t testing.TB, n *Node, maxTTL time.Duration, isNew bool) *Node {
	t.Helper()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: isNew}); err != nil {
		t.Fatal(err)
	}
	return n
}

func configured(t testing.TB, dsn string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// on makes a node on a pool, which is the whole group. The test closes the node.
func on(t testing.TB, db *sql.DB, schema string) *Node {
	t.Helper()
	n, err := New(db, "mine", schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return join(t, n, maxTTL, true)
}

func request(name string, token fence.Token) node.Request {
	id := make([]byte, 16)
	rand.Read(id)
	return node.Request{Name: name, Holder: node.Holder(hex.EncodeToString(id) + ":test"), TTL: maxTTL, Token: token}
}

func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}

func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("got %+v, %v; want %v", a, err, status)
		}
		return a
	}
}

// One of two clients has a search_path that is hostile.
func TestConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		own, theirs := trapped(t)
		n, other := join(t, open(t, theirs), time.Hour, true), join(t, open(t, own), time.Hour, true)
		if _, err := n.Do(context.Background(), node.Request{Op: node.Release, Name: "warm"}); err != nil {
			t.Fatal(err)
		}
		return nodetest.Harness{Node: n, Other: other, Wait: time.Sleep}
	})
}
