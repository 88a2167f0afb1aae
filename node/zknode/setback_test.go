package zknode

import (
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
	n := votingFor(t, maxTTL, url, WithDial(f.dial))
	r := request("a", "earlier", 5)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	restore := backup(t, server)
	r = request("a", "me", 0)
	mine := eventually(t, n, as(node.Acquire, r))
	f.sever()
	restore()
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

// A backup is put back, from before a client's first lease, but not from before its session. The
// loss is noticed, and waited for. A lease of after that must be a lease.
func TestSetBackWithinASession(t *testing.T) {
	t.Parallel()
	server := testserver.StartZooKeeper(t)
	const maxTTL = 15 * time.Second // its session outlives the two starts of a server, on a busy machine too
	url := "zk://" + server.Addr()
	other := votingFor(t, maxTTL, url)
	n := openFor(t, maxTTL, true, url)
	id := linkOf(t, n).ID
	restore := backup(t, server)
	for range 20 {
		ready(t, n) // it has a lease in its session
	}
	restore()
	ready(t, n)
	ready(t, other)
	if linkOf(t, n).ID != id {
		t.Fatal("the test is about one session: it has ended")
	}
	asked := time.Now()
	first := eventually(t, n, as(node.Acquire, lasting(request("a", "me", 0), maxTTL)))
	a, err := other.Do(t.Context(), as(node.Acquire, lasting(request("a", "rival", 0), maxTTL)))
	if err == nil && a.Status == node.Granted && time.Since(asked) < maxTTL {
		t.Errorf("two holders: the lease of %v was over after %v, tokens %d and %d", maxTTL, time.Since(asked),
			first.Register, a.Register)
	}
}
