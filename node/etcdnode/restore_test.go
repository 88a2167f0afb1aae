//go:build unix

package etcdnode_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/etcdnode"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// snapshotOf saves a snapshot of a cluster in a file, as etcdctl does.
func snapshotOf(t testing.TB, c *clientv3.Client) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "snapshot")
	to, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	from, err := c.Snapshot(t.Context())
	if err == nil {
		_, err = io.Copy(to, from)
		from.Close()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

const larger = "1000000" // than all revisions that were

// A snapshot is restored in the place of the cluster, which keeps its id and forgets a lease.
// Others write there until raft has come as far as it was, or the restore was made with larger
// revisions than all earlier ones. Neither a client that was connected then nor one that comes now
// must take it for what it was.
func TestRestoredSnapshot(t *testing.T) {
	t.Parallel()
	grown := []string{"--bump-revision", larger, "--mark-compacted"}
	for _, c := range []struct {
		who              string
		given, connected bool
		how              []string
	}{
		{who: "a new client"}, {who: "a new client of the caller's", given: true},
		{"a connected client", false, true, grown}, {"a connected client of the caller's", true, true, grown},
	} {
		t.Run(c.who, func(t *testing.T) {
			t.Parallel()
			e := testserver.StartEtcd(t, 1)
			m, other := e.Members[0], raw(t, e)
			client := func(given bool) (n *etcdnode.Node) {
				if n = unjoined(t, "etcd://"+e.Addrs()); given {
					var err error
					if n, err = etcdnode.New(raw(t, e), ""); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { n.Close() })
				}
				join(t, n, longest, true)
				return n
			}
			first, n := client(false), (*etcdnode.Node)(nil)
			must(t, first, request(node.Acquire, "b", "1", time.Minute), node.Granted)
			if c.connected {
				n = client(c.given)
				must(t, n, request(node.Acquire, "a", "1", time.Millisecond), node.Granted)
			}
			snapshot := snapshotOf(t, other)
			became(t, first, request(node.Acquire, "a", "1", time.Minute), node.Granted)
			m.Stop()
			m.Restore(snapshot, c.how...)
			e.Start(m)
			for i := range 100 {
				eventually(t, func() error { _, err := other.Put(t.Context(), "other", fmt.Sprint(i)); return err })
			}
			if !c.connected {
				n = client(c.given)
			}
			eventually(t, func() error {
				a, err := n.Do(within(t, 2*time.Second), request(node.Acquire, "a", "2", time.Minute))
				switch {
				case err == nil && a.Status == node.Held: // by the lease of before, which is in the snapshot: that promises nothing
					return fmt.Errorf("%+v", a)
				case err == nil && a.Status != node.Rejoining:
					t.Fatalf("at a cluster that has forgotten a lease: %+v", a)
				}
				return err
			})
		})
	}
}

// A client is paused before it sets the mark. Meanwhile another client sets it, and has a lease,
// and a snapshot of before is restored: with the notice, and with larger revisions.
func TestPausedBeforeMarkOverARestore(t *testing.T) {
	t.Parallel()
	const maxTTL = 500 * time.Millisecond
	e := testserver.StartEtcd(t, 1)
	url, c := "etcd://"+e.Addrs(), raw(t, e)
	n, other := unjoined(t, url), unjoined(t, url)
	join(t, n, maxTTL, false)
	join(t, other, maxTTL, false)
	note(t, n, facts(t, n), true)
	note(t, n, facts(t, n), true)
	var waited admit.Facts
	eventually(t, func() error {
		if waited = facts(t, n); waited.Out < admit.Quarantine(maxTTL) {
			return fmt.Errorf("%+v", waited)
		}
		return nil
	})
	snapshot := snapshotOf(t, c)
	set(t, other, facts(t, other), true)
	must(t, other, request(node.Acquire, "a", "1", maxTTL), node.Granted)
	e.Members[0].Stop()
	e.Members[0].Restore(snapshot, "--bump-revision", larger, "--mark-compacted")
	e.Start(e.Members[0])
	for i := range 100 { // until raft is further than it was
		eventually(t, func() error { _, err := c.Put(t.Context(), "other", fmt.Sprint(i)); return err })
	}
	eventually(t, func() error { _, err := n.Inspect(t.Context(), "a"); return err }) // it is connected
	set(t, n, waited, false)
	must(t, other, request(node.Acquire, "a", "2", maxTTL), node.Rejoining)
}
