package natsnode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// remake deletes a bucket and makes it anew.
func remake(t *testing.T, s *testserver.NATS, url string) {
	t.Helper()
	n := unjoined(t, url)
	if err := admin(t, s).DeleteStream(t.Context(), n.link.stream()); err != nil {
		t.Fatal(err)
	}
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// empty has the server lose what it has written of a bucket, and not what the bucket is.
func empty(t *testing.T, s *testserver.NATS, url string) {
	t.Helper()
	s.Kill()
	stream := unjoined(t, url).link.stream()
	files, err := filepath.Glob(filepath.Join(s.Data(), "jetstream", "*", "streams", stream, "msgs", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart()
}

// A write that was decided on a bucket fails on the next one, which has the same name: whether
// there was a record or not.
func TestLateWriteFailsOnANewBucket(t *testing.T) {
	s := testserver.StartNATS(t)
	bucket(t, s) // stays, see TestUnfitBucketIsRefused
	url := bucket(t, s)
	n := open(t, url)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("written", "", 7))))
	names := []string{cas.StripeKey(node.Stripe("written")), cas.StripeKey(node.Stripe("never written")), cas.MarkKey}
	k := n.store.keys
	at, err := k.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := k.Get(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	remake(t, s, url)
	// The same writes as the first bucket has had.
	want(t, node.Granted)(open(t, url).Do(t.Context(), as(node.Acquire, request("written", "", 7))))
	for i, v := range all {
		if _, err := k.Put(t.Context(), names[i], v.Data, v, at, all[2].Version); !errors.Is(err, cas.ErrConflict) {
			t.Errorf("%s of revision %d: %v; want %v", names[i], v.Version, err, cas.ErrConflict)
		}
	}
}

// A mark that is copied into a bucket that was made anew is not of that: it does not vote.
func TestCopiedMarkDoesNotVote(t *testing.T) {
	s := testserver.StartNATS(t)
	bucket(t, s) // stays, see TestUnfitBucketIsRefused
	url := bucket(t, s)
	n := open(t, url)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 7))))
	mark, err := n.store.keys.Get(t.Context(), cas.MarkKey)
	if err != nil {
		t.Fatal(err)
	}
	remake(t, s, url)
	if _, err := admin(t, s).Publish(t.Context(), n.link.subject(cas.MarkKey), mark[0].Data); err != nil {
		t.Fatal(err)
	}
	want(t, node.Rejoining)(n.Do(t.Context(), as(node.Acquire, request("a", "", 7))))
}
