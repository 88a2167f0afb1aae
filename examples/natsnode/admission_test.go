package natsnode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/nodetest"
)

// A bucket that was made anew has another time of creation. A bucket whose server has lost its
// files has the same: there the mark is missing.
func TestAdmission(t *testing.T) {
	for what, wipe := range map[string]func(*testing.T, *server, Config){"made anew": remake, "emptied": empty} {
		t.Run(what, func(t *testing.T) {
			s := startServer(t, "always")
			bucket(t, s) // stays, see TestUnfitBucketIsRefused
			nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
				c := bucket(t, s)
				return nodetest.Admission{Open: func() node.Node { return openUnjoined(t, s.addr, c) },
					Wipe: func() { wipe(t, s, c) }, Wait: time.Sleep}
			})
		})
	}
}

// remake deletes a bucket and makes it anew.
func remake(t *testing.T, s *server, c Config) {
	t.Helper()
	n := openUnjoined(t, s.addr, c)
	if err := n.keys.js.DeleteStream(t.Context(), c.stream()); err != nil {
		t.Fatal(err)
	}
	if err := Create(t.Context(), connect(t, s.addr), c); err != nil {
		t.Fatal(err)
	}
}

// empty has the server lose what it has written of a bucket, and not what the bucket is.
func empty(t *testing.T, s *server, c Config) {
	t.Helper()
	s.kill()
	files, err := filepath.Glob(filepath.Join(s.folder, "jetstream", "*", "streams", c.stream(), "msgs", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
}

// A write that was decided on a bucket fails on the next one, which has the same name: whether
// there was a record or not.
func TestLateWriteFailsOnANewBucket(t *testing.T) {
	s := startServer(t, "always")
	bucket(t, s) // stays, see TestUnfitBucketIsRefused
	c := bucket(t, s)
	n := open(t, s.addr, c)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("written", "", 7))))
	names := []string{cas.StripeKey(node.Stripe("written")), cas.StripeKey(node.Stripe("never written")), cas.MarkKey}
	at, err := n.keys.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := n.keys.Get(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	remake(t, s, c)
	// The same writes as the first bucket has had.
	want(t, node.Granted)(open(t, s.addr, c).Do(t.Context(), as(node.Acquire, request("written", "", 7))))
	for i, v := range all {
		if _, err := n.keys.Put(t.Context(), names[i], v.Data, v, at, all[2].Version); !errors.Is(err, cas.ErrConflict) {
			t.Errorf("%s of revision %d: %v; want %v", names[i], v.Version, err, cas.ErrConflict)
		}
	}
}
