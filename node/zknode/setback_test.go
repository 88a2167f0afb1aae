package zknode

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// Versions are counted again in an ensemble that was set back. A client that was away meanwhile,
// and has no other sign of it, must not take the ensemble that it finds for the earlier one. Nor
// must it take a rival's lease for its own.
func TestSetBackToTheSameVersion(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	const maxTTL = time.Minute
	url, f := "zk://"+server.Addr(), new(faulty)
	n := openFor(t, maxTTL, true, url, WithDial(f.dial))
	ready(t, n)
	r := request("a", "earlier", 5)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	server.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(server.Data())); err != nil {
		t.Fatal(err)
	}
	if err := server.Begin(); err != nil {
		t.Fatal(err)
	}
	r = request("a", "me", 0)
	mine := eventually(t, n, as(node.Acquire, r))
	f.sever()
	server.Kill()
	server.Wipe()
	if err := os.CopyFS(server.Data(), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	if err := server.Begin(); err != nil {
		t.Fatal(err)
	}
	other := openFor(t, maxTTL, true, url)
	for range 40 { // more transactions than the client has seen
		ready(t, other)
	}
	rival := request("a", "rival", mine.Register+1000)
	want(t, node.Granted)(other.Do(t.Context(), as(node.Acquire, rival)))
	f.cut.Store(false)
	if a, err := settle(t, n, as(node.Extend, r)); err != nil || a.Status == node.Granted {
		t.Errorf("extended %+v, %v, while a rival holds", a, err)
	}
	want(t, node.Granted)(other.Do(t.Context(), as(node.Extend, rival)))
}
