package valkeynode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/nodetest"
)

func TestConformance(t *testing.T) {
	conformance(t, 0, func(n *valkeynode.Node) node.Node { return n })
}

func TestConformanceOfBatches(t *testing.T) {
	conformance(t, 0, func(n *valkeynode.Node) node.Node { return together{n} })
}

// What needs a witness is answered as what needs none.
func TestConformanceWithAReplica(t *testing.T) {
	conformance(t, 1, func(n *valkeynode.Node) node.Node { return n })
}

func conformance(t *testing.T, replicas int, of func(*valkeynode.Node) node.Node) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind, "repl-diskless-sync-delay 0")
		for range replicas {
			follow(t, testserver.Start(t, kind), server)
		}
		inStep(t, server, replicas)
		opened := 0
		nodetest.Run(t, func(t *testing.T) nodetest.Harness {
			// A prefix of its own is an empty store, and quicker than a server.
			opened++
			prefix := fmt.Sprintf("test-%d:", opened)
			server.MarkAdmitted(prefix, time.Hour)
			allow(t, server, prefix)
			open := func() node.Node { return of(joined(t, server.URL(), time.Hour, valkeynode.WithPrefix(prefix))) }
			return nodetest.Harness{Node: open(), Other: open(), Wait: time.Sleep}
		})
	})
}

// joined opens a node that is alone in its group.
func joined(t testing.TB, url string, maxTTL time.Duration, options ...valkeynode.Option) *valkeynode.Node {
	t.Helper()
	n := open(t, url, options...)
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL}); err != nil {
		t.Fatal(err)
	}
	return n
}

func replID(t testing.TB, server *testserver.Server) string {
	t.Helper()
	return infoField(t, server, "master_replid")
}

// infoField reads a field of INFO, "" if it is not there.
func infoField(t testing.TB, server *testserver.Server, field string) string {
	t.Helper()
	return testserver.Field(server.Do("INFO"), field)
}
