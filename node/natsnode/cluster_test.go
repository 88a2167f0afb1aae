package natsnode

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// Three servers are one node. When the leader is killed, the others go on: what was granted
// is still leased, and the register goes on from where it was.
func TestLeaderIsKilled(t *testing.T) {
	servers := testserver.StartNATSCluster(t, 3)
	n := unjoined(t, unused(servers...))
	eventually(t, n.Migrate)
	join(t, n)
	held := request("held", "me", 0)
	eventually(t, func(ctx context.Context) error { _, err := n.Do(ctx, as(node.Acquire, held)); return err })

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
	leads := func() (leader string) {
		eventually(t, func(ctx context.Context) error {
			info, err := n.store.keys.info(ctx)
			if err == nil {
				leader = info.Cluster.Leader
			}
			return err
		})
		return leader
	}
	leader := leads()
	for k, s := range servers {
		if fmt.Sprint("s", k) == leader {
			s.Kill()
		}
	}
	eventually(t, grow)
	if now := leads(); now == leader {
		t.Errorf("%s still leads", now)
	}
	for range 20 {
		eventually(t, grow)
	}
	e, err := n.Examine(t.Context(), node.Look{})
	if err != nil || !strings.Contains(fmt.Sprint(e.Findings), leader) {
		t.Errorf("%+v, %v; want a finding about %s", e, err, leader)
	}
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request("held", "other", 0))))
	if a := want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, held))); a.Register == 0 {
		t.Errorf("extended with %+v", a)
	}
}
