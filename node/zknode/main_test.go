package zknode

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
	"github.com/fenlock/fenlock/nodetest"
)

// outside owns the server that tests share.
var outside testserver.Outside

var shared = sync.OnceValue(func() *testserver.ZooKeeper { return testserver.StartZooKeeper(&outside) })

var roots atomic.Int64

// freshURL is a root of its own on the shared server.
func freshURL() string { return rootOn(shared()) }

// rootOn is a root of its own on a server.
func rootOn(server *testserver.ZooKeeper) string {
	return fmt.Sprintf("zk://%s/test-%d/fenlock", server.Addr(), roots.Add(1))
}

func TestMain(m *testing.M) {
	status := m.Run()
	outside.Close()
	os.Exit(status)
}

const testMaxTTL = 5 * time.Minute

// open opens a node that is a group of its own, and that the test closes.
func open(t testing.TB, url string, with ...Option) *Node {
	t.Helper()
	return openFor(t, testMaxTTL, true, url, with...)
}

func openFor(t testing.TB, maxTTL time.Duration, isNew bool, url string, with ...Option) *Node {
	t.Helper()
	n, err := Open(url, with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: isNew}); err != nil {
		t.Fatal(err)
	}
	return n
}

// voting opens a node as open does, and waits until it votes.
func voting(t testing.TB, url string, with ...Option) *Node {
	t.Helper()
	return votingFor(t, testMaxTTL, url, with...)
}

func votingFor(t testing.TB, maxTTL time.Duration, url string, with ...Option) *Node {
	t.Helper()
	n := openFor(t, maxTTL, true, url, with...)
	ready(t, n)
	return n
}

// ready waits until a node votes.
func ready(t testing.TB, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		r := lasting(request("ready", "", 0), time.Second)
		a, err := n.Do(ctx, as(node.Acquire, r))
		if err == nil && a.Status == node.Granted {
			n.Do(ctx, as(node.Release, r))
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not ready: %+v, %v", a, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		url := freshURL()
		n, other := open(t, url), open(t, url)
		for _, one := range []*Node{n, other} {
			if why, err := one.Admission().Admit(t.Context()); err != nil || why != (node.Absence{}) {
				t.Fatal(why, err)
			}
		}
		// A lease whose TTL is over is removed by its client, by one request.
		wait := func(d time.Duration) {
			time.Sleep(d + 20*time.Millisecond) // the clock of a stripe is behind
			for _, one := range []*Node{n, other} {
				one.settle()
			}
		}
		return nodetest.Harness{Node: n, Other: other, Wait: wait}
	})
}

// settle waits until all leases are removed that this client has written, and whose time is over.
func (n *Node) settle() {
	for range 2000 {
		if !n.seen.Due() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// looked is what the servers have of a name.
type looked struct {
	cas.Written
	there bool // the lease
	znode znode
}

// look reads what the servers have of a name, without deciding.
func (n *Node) look(ctx context.Context, name string) (l looked, err error) {
	link, err := n.session.Link(ctx)
	if err != nil {
		return l, err
	}
	replies, err := link.Do(ctx, wire.Sync{Path: n.root}, wire.Get{Path: n.paths.stripe(node.Stripe(name))})
	if err != nil {
		return l, err
	}
	l.znode, err = n.read(replies[1])
	all, _ := l.znode.Parts()
	for _, w := range all {
		if w.Name == name {
			l.Written, l.there = w, true
		}
	}
	return l, err
}

// stop has nothing looked after any more, as in a process that is stopped.
func (n *Node) stop() { n.seen.Close() }

// storeOf is a node as package cas sees it.
func storeOf(n *Node) store { return store{&n.ensemble} }
