//go:build unix

package etcdnode_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/etcdnode"
)

// A member was replaced, and has become a cluster of its own at its old address. The first client
// that comes to it must not have it admitted beside the other addresses' cluster, where the lock is
// held.
func TestMemberThatIsAnotherCluster(t *testing.T) {
	t.Parallel()
	e, alone := testserver.StartEtcd(t, 1), testserver.StartEtcd(t, 1)
	must(t, open(t, "etcd://"+e.Addrs()), request(node.Acquire, "a", "1", time.Minute), node.Granted)
	c := raw(t, alone)
	for range 8 { // a client begins with any of them
		n := open(t, "etcd://"+e.Addrs()+","+alone.Addrs())
		a, err := n.Do(within(t, 10*time.Second), request(node.Acquire, "a", "2", time.Minute))
		if err == nil && a.Status == node.Held {
			continue
		}
		if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "another cluster") ||
			!strings.Contains(err.Error(), e.Addrs()) {
			t.Errorf("%+v, %v; want ErrMisconfigured", a, err)
		}
		if written := keysOf(t, c, etcdnode.DefaultPrefix); len(written) != 0 {
			t.Fatalf("written: %q", written)
		}
	}
}

// A client was led to another cluster for a moment. The one that it comes back to has lost nothing:
// it votes, and has its leases.
func TestBackFromAnotherCluster(t *testing.T) {
	t.Parallel()
	first, second := testserver.StartEtcd(t, 1), testserver.StartEtcd(t, 1)
	for range 50 { // as much is behind it as behind the first
		if _, err := raw(t, second).Put(t.Context(), "x", "y"); err != nil {
			t.Fatal(err)
		}
	}
	await(t, open(t, "etcd://"+second.Addrs()))
	p := proxy.New(first.Members[0].Addr(), nil)
	defer p.Close()
	n := open(t, "etcd://"+p.Addr(0))
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, held, node.Granted)
	before := keysOf(t, raw(t, first), etcdnode.DefaultPrefix)
	p.Retarget(second.Members[0].Addr())
	eventually(t, func() error {
		a, err := n.Do(within(t, 2*time.Second), request(node.Acquire, "b", "1", time.Minute))
		switch {
		case err == nil:
			t.Fatalf("at another cluster: %+v", a)
		case strings.Contains(err.Error(), "another cluster"):
			return nil
		}
		return errors.Join(errors.New("not led there yet"), err)
	})
	p.Retarget(first.Members[0].Addr())
	became(t, n, as(node.Extend, held), node.Granted)
	after := keysOf(t, raw(t, first), etcdnode.DefaultPrefix)
	if meta := func(s string) bool { return strings.HasPrefix(s, "meta ") }; before[slices.IndexFunc(before,
		meta)] != after[slices.IndexFunc(after, meta)] {
		t.Errorf("%q became %q", before, after)
	}
}
