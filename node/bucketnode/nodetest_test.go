package bucketnode_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/bucketnode"
	"github.com/fenlock/fenlock/nodetest"
)

func TestConformance(t *testing.T) {
	f := newFake(t)
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		f.wipe()
		wait := f.let
		if strings.HasSuffix(t.Name(), "/ReleaseAfterTheEndIsLost") { // which goes by this machine's clock
			wait = func(d time.Duration) { time.Sleep(d + 4*time.Second) }
		}
		return nodetest.Harness{Node: ready(t, f), Other: ready(t, f), Wait: wait}
	})
}

func TestAdmission(t *testing.T) {
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		t.Parallel()
		f := newFake(t)
		return nodetest.Admission{Open: func() node.Node { return open(t, f.url("locks")) }, Wipe: f.wipe, Copy: f.copy,
			Wait: func(d time.Duration) { time.Sleep(d); f.pass(d) }} // whole seconds are waited for as well
	})
}

// maxTTL is the longest lease of the groups of one that tests make.
const maxTTL = 100 * 365 * 24 * time.Hour

func open(t testing.TB, url string) *bucketnode.Node {
	t.Helper()
	n, err := bucketnode.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// ready opens a node in a new group of one.
func ready(t testing.TB, f *fake) *bucketnode.Node {
	t.Helper()
	n := open(t, f.url("locks"))
	join(t, n, maxTTL, true)
	return n
}

func join(t testing.TB, n *bucketnode.Node, maxTTL time.Duration, isNew bool) {
	t.Helper()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: isNew}); err != nil {
		t.Fatal(err)
	}
}

var holders atomic.Int64

// request is one holder's request, with a lease of ten seconds.
func request(op node.Op, name string) node.Request {
	return node.Request{Op: op, Name: name, Holder: node.Holder(fmt.Sprintf("%032d:holder", holders.Add(1))),
		TTL: 10 * time.Second}
}

// as is the request for another operation.
func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
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
