//go:build unix

package etcdnode_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"
	"github.com/fenlock/fenlock/nodetest"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// shared is a cluster of three for the tests that do it no harm, each with a prefix of its
// own. It is started by the first and stays until the binary ends.
var shared = sync.OnceValue(func() *testserver.Etcd {
	outside := new(testserver.Outside)
	ends = append(ends, outside.Close)
	var e *testserver.Etcd
	if err := testserver.Try(func() error { e = testserver.StartEtcd(outside, 3); return nil }); err != nil {
		panic(err)
	}
	return e
})

var ends []func()

// Most tests wait most of the time: for leases to end, leaders to be elected.
const together = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", together)
	code := m.Run()
	for _, end := range ends {
		end()
	}
	os.Exit(code)
}

// longest is the longest lease of most tests.
const longest = 5 * time.Minute

var prefixes atomic.Int64

// fresh returns a URL of the shared cluster with a prefix that was never used.
func fresh() string { return fmt.Sprintf("etcd://%s/test/%d", shared().Addrs(), prefixes.Add(1)) }

// open returns a node, joined to a group of its own that is new.
func open(t testing.TB, url string) *etcdnode.Node {
	t.Helper()
	n, err := etcdnode.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	join(t, n, longest, true)
	return n
}

func join(t testing.TB, n *etcdnode.Node, maxTTL time.Duration, isNew bool) {
	t.Helper()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: isNew}); err != nil {
		t.Fatal(err)
	}
}

// await waits until a node votes.
func await(t testing.TB, n *etcdnode.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		// It grants nothing and changes nothing: the lease is not there.
		a, err := n.Do(ctx, node.Request{Op: node.Confirm, Name: "admit",
			Holder: request(node.Confirm, "admit", "1", 0).Holder, Token: 1})
		if err == nil && a.Status != node.Rejoining {
			return
		}
		if ctx.Err() != nil || errors.Is(err, node.ErrMisconfigured) {
			t.Fatalf("%+v, %v", a, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// lag is by how much a lease may outlive its TTL while its process is there. Its removal takes that
// long on a slow machine.
const lag = 300 * time.Millisecond

// Each scene has a prefix of its own. What is put back is written key by key, as a person would do
// it who has saved the keys.
func TestAdmission(t *testing.T) {
	shared()
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		t.Parallel()
		c, url := raw(t, shared()), fresh()
		prefix := url[strings.Index(url, "/test/"):] + "/"
		saved := func() []*mvccpb.KeyValue {
			a, err := c.Get(t.Context(), prefix, clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			return a.Kvs
		}
		wipe := func() {
			if _, err := c.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
		}
		return nodetest.Admission{
			Open: func() node.Node { return unjoined(t, url) },
			Wipe: wipe,
			Copy: func() (restore func()) {
				kvs := saved()
				return func() {
					wipe()
					for _, kv := range kvs {
						if _, err := c.Put(t.Context(), string(kv.Key), string(kv.Value)); err != nil {
							t.Fatal(err)
						}
					}
				}
			},
			Wait: time.Sleep,
		}
	})
}

func TestConformance(t *testing.T) {
	shared()
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		url := fresh()
		n, other := open(t, url), open(t, url)
		await(t, n)
		await(t, other)
		return nodetest.Harness{Node: n, Other: other, Wait: func(d time.Duration) { time.Sleep(d + lag) }}
	})
}
