package memnode_test

import (
	"context"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// A token fixed at x and z must survive the loss of x while z is not reachable.
func TestRejoinWaitsForASilentNode(t *testing.T) {
	var now time.Duration
	clock := memnode.WithClock(func() time.Duration { return now })
	x, y, z := memnode.New("x", clock), memnode.New("y", clock), memnode.New("z", clock)
	// z as this client sees it: a partition
	zFar := z.Share()
	zFar.Close()
	g := node.Group{Nodes: []node.Node{x, y, zFar}, MaxTTL: time.Second}
	for _, n := range []*memnode.Node{x, y, zFar} {
		n.Join(g)
	}
	ctx := context.Background()
	r := node.Request{Op: node.Acquire, Name: "n", Holder: "a", TTL: time.Second, Token: 1000}
	x.Do(ctx, r)
	z.Do(ctx, r) // 1000 is fixed at x and z
	x.Crash()
	x.Restart()
	now += 2 * time.Second
	r2 := node.Request{Op: node.Acquire, Name: "n", Holder: "b", TTL: time.Second, Token: 1}
	ax, _ := x.Do(ctx, r2)
	ay, _ := y.Do(ctx, r2)
	if ax.Status == node.Granted && ay.Status == node.Granted && max(ax.Register, ay.Register) < fence.Token(1000) {
		t.Errorf("the token went back from 1000 with one loss of memory: %+v, %+v", ax, ay)
	}
}
