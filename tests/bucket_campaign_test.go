//go:build campaign

package tests

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/nodetest"
)

// slowest is by how much a lease of bucketnode may outlive its TTL: its slack, and the second
// that a Date is rounded by.
const slowest = 4 * time.Second

// The suite of all engines, on the stores of others. It waits for whole seconds.

func TestCampaignBucketHoldsOnVersity(t *testing.T) { holds(t, onVersity) }

func TestCampaignBucketOnVersity(t *testing.T) {
	url, empty := onVersity(t)
	conforms(t, url, empty)
}

func TestCampaignBucketOnGofakes3(t *testing.T) {
	url, empty := onGofakes3(t)
	conforms(t, url, empty)
}

func conforms(t *testing.T, url string, empty func()) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		empty()
		return nodetest.Harness{Node: member(t, url), Other: member(t, url),
			Wait: func(d time.Duration) { time.Sleep(d + slowest) }}
	})
}

func onVersity(t *testing.T) (url string, empty func()) {
	server := testserver.StartVersity(t)
	return server.URL("bucket", "locks"), func() {
		if err := os.RemoveAll(filepath.Join(server.Bucket("bucket"), "locks")); err != nil {
			t.Fatal(err)
		}
	}
}
