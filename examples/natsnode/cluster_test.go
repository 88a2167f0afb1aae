package natsnode

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// Three servers are one node. When the leader is killed, the others go on: what was granted
// is still leased, and the register goes on from where it was.
func TestLeaderIsKilled(t *testing.T) {
	servers := newCluster(t)
	addrs := ""
	for _, s := range servers {
		s.start()
		t.Cleanup(s.kill)
		addrs += ",nats://" + s.addr
	}
	nc := connect(t, addrs[len(",nats://"):], nats.RetryOnFailedConnect(true))
	c := unused()
	c.Replicas = 3
	eventually(t, func(ctx context.Context) error { return Create(ctx, nc, c) })
	var n *Node
	eventually(t, func(ctx context.Context) (err error) { n, err = Open(ctx, nc, c); return err })
	defer n.Close()
	join(t, n)
	held := request("held", "me", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))

	var last atomic.Uint64
	grow := func(ctx context.Context) error {
		r := request("a", "me", 0)
		r.TTL = 10 * time.Second // what is unknown may be leased for so long
		a, err := n.Do(ctx, as(node.Acquire, r))
		if err != nil {
			return err
		}
		if a.Status == node.Held { // by an acquire before, whose outcome was unknown
			return fmt.Errorf("held for another %v", a.Remaining)
		}
		if before := fence.Token(last.Swap(uint64(a.Register))); a.Register <= before {
			t.Errorf("granted %d after %d", a.Register, before)
		}
		_, err = n.Do(ctx, as(node.Release, r))
		return err
	}
	for range 20 {
		eventually(t, grow)
	}
	leader := n.keys.stream.CachedInfo().Cluster.Leader
	for k, s := range servers {
		if fmt.Sprint("s", k) == leader {
			s.kill()
		}
	}
	eventually(t, grow)
	if now := n.keys.stream.CachedInfo().Cluster.Leader; now == leader {
		t.Errorf("%s still leads", now)
	}
	for range 20 {
		eventually(t, grow)
	}
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("held", "other", 0))))
	if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, held))); a.Register == 0 {
		t.Errorf("extended with %+v", a)
	}
}

// eventually tries until there is no error, for a minute at most.
func eventually(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err = f(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}
