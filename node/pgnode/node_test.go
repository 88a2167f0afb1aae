package pgnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

var schemas atomic.Int64

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
	n := open(t, rawURL)
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: true}); err != nil {
		t.Fatal(err)
	}
	return n
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

func TestConformance(t *testing.T) {
	server := testserver.StartPostgres(t)
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		u := newSchema(t, server)
		group := func() *Node {
			n := open(t, u)
			if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour, New: true}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		n, other := group(), group()
		if _, err := n.Do(context.Background(), node.Request{Op: node.Release, Name: "warm"}); err != nil {
			t.Fatal(err)
		}
		return nodetest.Harness{Node: n, Other: other, Wait: time.Sleep}
	})
}
