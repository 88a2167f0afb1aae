package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/bucketnode"
)

// Stores of others keep the conditions of writes, and hold locks. The module's own tests have a
// store that does not, and fails in other ways. Versity's gateway, which takes two minutes to
// build, is in the campaigns.
func TestBucketOnGofakes3(t *testing.T) { holds(t, onGofakes3) }

// holds checks that a store holds locks, and that its node is out once the object is removed.
func holds(t *testing.T, start func(t *testing.T) (url string, empty func())) {
	url, empty := start(t)
	first := member(t, url)
	if _, err := first.Examine(t.Context(), node.Look{Thorough: true}); err != nil {
		t.Error(err)
	}
	acquire := func(n node.Node) node.Status {
		id := [node.IDLength]byte([]byte(fmt.Sprintf("%032d", rand.Uint64())))
		a, err := n.Do(t.Context(), node.Request{Op: node.Acquire, Name: "name",
			Holder: node.NewHolder(id, time.Now(), 0, ""), TTL: time.Minute})
		if err != nil {
			t.Error(err)
		}
		return a.Status
	}
	if status := acquire(first); status != node.Granted {
		t.Errorf("%v", status)
	}
	if status := acquire(member(t, url)); status != node.Held {
		t.Errorf("%v", status)
	}
	empty()
	if status := acquire(first); status != node.Rejoining {
		t.Errorf("%v, after the object was removed", status)
	}
}

func onGofakes3(t *testing.T) (url string, empty func()) {
	server, backend := startS3(t)
	return "s3://user:password@" + strings.TrimPrefix(server.URL, "http://") + "/bucket/locks", func() {
		if _, err := backend.DeleteObject("bucket", "locks/node"); err != nil {
			t.Fatal(err)
		}
	}
}

// member opens a node in a group of one.
func member(t *testing.T, url string) *bucketnode.Node {
	t.Helper()
	n, err := bucketnode.Open(url)
	if err == nil {
		err = n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour, New: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}
