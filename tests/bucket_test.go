package tests

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/bucketnode"
	"github.com/fenlock/fenlock/nodetest"
)

// The stores of others keep the conditions of writes, and a node in them passes the suite. The
// module's own tests have a store that does not, and fails in other ways.

// slowest is by how much a lease of bucketnode may outlive its TTL: its slack, and the second that a
// Date is rounded by.
const slowest = 4 * time.Second

func TestBucketOnVersity(t *testing.T) {
	server := testserver.StartVersity(t)
	conforms(t, server.URL("bucket", "locks"), func() {
		if err := os.RemoveAll(filepath.Join(server.Bucket("bucket"), "locks")); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBucketOnGofakes3(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	url := "s3://user:password@" + strings.TrimPrefix(server.URL, "http://") + "/bucket/locks"
	conforms(t, url, func() {
		if _, err := backend.DeleteObject("bucket", "locks/node"); err != nil {
			t.Fatal(err)
		}
	})
}

func conforms(t *testing.T, url string, empty func()) {
	open := func(t *testing.T) *bucketnode.Node {
		n, err := bucketnode.Open(url)
		if err == nil {
			err = n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour, New: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open(t)
	if _, err := n.Examine(t.Context(), node.Look{Thorough: true}); err != nil {
		t.Error(err)
	}
	n.Close()
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		empty()
		return nodetest.Harness{Node: open(t), Other: open(t), Wait: func(d time.Duration) { time.Sleep(d + slowest) }}
	})
}
