package tests

import (
	"fmt"
	"math/rand/v2"
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
)

// The stores of others keep the conditions of writes, and hold locks. The module's own tests have a
// store that does not, and fails in other ways.
func TestBucketOnOtherStores(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (url string, empty func()){
		"Versity": onVersity, "gofakes3": onGofakes3,
	} {
		t.Run(name, func(t *testing.T) {
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
		})
	}
}

func onVersity(t *testing.T) (url string, empty func()) {
	server := testserver.StartVersity(t)
	return server.URL("bucket", "locks"), func() {
		if err := os.RemoveAll(filepath.Join(server.Bucket("bucket"), "locks")); err != nil {
			t.Fatal(err)
		}
	}
}

func onGofakes3(t *testing.T) (url string, empty func()) {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
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
