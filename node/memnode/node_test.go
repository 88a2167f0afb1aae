package memnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
	"github.com/fenlock/fenlock/nodetest"
)

// fakeClock is moved by hand.
type fakeClock struct{ now atomic.Int64 }

func (c *fakeClock) Now() time.Duration       { return time.Duration(c.now.Load()) }
func (c *fakeClock) Advance(by time.Duration) { c.now.Add(int64(by)) }

func TestConformance(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		clock := new(fakeClock)
		n := New("memory", WithClock(clock.Now))
		return nodetest.Harness{Node: n, Other: n.Share(), Wait: clock.Advance, Fast: true}
	})
}

func TestAdmission(t *testing.T) {
	nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
		clock := new(fakeClock)
		n := New("memory", WithClock(clock.Now))
		return nodetest.Admission{Open: func() node.Node { return n.Share() }, Wait: clock.Advance,
			Wipe: func() { n.Crash(); clock.Advance(1); n.Restart() }}
	})
}

func TestConformanceOnTheDefaultClock(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		n := New("memory")
		return nodetest.Harness{Node: n, Other: n.Share(), Wait: time.Sleep}
	})
}

func request(name, holder string, token fence.Token) node.Request {
	id := fmt.Sprintf("%032x", holder)
	return node.Request{Name: name, Holder: node.Holder(id[len(id)-32:] + ":" + holder), TTL: 10 * time.Second,
		Token: token}
}

func must(t *testing.T, want node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != want {
			t.Fatalf("got %+v, %v; want %v", a, err, want)
		}
		return a
	}
}

func TestCrashRestartAdmit(t *testing.T) {
	n, ctx := New("a"), t.Context()
	other := n.Share()
	got := must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 100))))
	n.Restart() // up already: nothing happens
	must(t, node.Held)(n.Do(ctx, as(node.Acquire, request("x", "two", 0))))

	n.Crash()
	if _, err := other.Do(ctx, as(node.Acquire, request("x", "two", 0))); !errors.Is(err, ErrDown) ||
		!strings.Contains(err.Error(), "memnode a") {
		t.Errorf("while down: %v", err)
	}
	n.Restart()
	if a := must(t, node.Rejoining)(other.Do(ctx,
		as(node.Acquire, request("x", "two", 0)))); a.Absence.Cause != node.NotJoined {
		t.Error("the answer does not say why the node is out:", a.Absence)
	}
	must(t, node.Rejoining)(n.Do(ctx, as(node.Extend, request("x", "one", got.Register))))
	must(t, node.Rejoining)(n.Do(ctx, as(node.Confirm, request("x", "one", got.Register))))
	must(t, node.Rejoining)(n.Do(ctx, node.Request{Op: node.ForceRelease, Name: "x", Token: 0}))
	must(t, node.Lost)(n.Do(ctx, as(node.Release, request("x", "one", 0))))

	n.Admit(map[int]fence.Token{node.Stripe("x"): got.Register})
	must(t, node.Granted)(n.Do(ctx, as(node.Extend, request("x", "one", got.Register))))
	if l, err := n.Inspect(ctx, "x"); err != nil || l.Register != got.Register || l.Label != "one" {
		t.Errorf("after the repair: %+v, %v", l, err)
	}
}

// group returns three joined nodes on one clock.
func group(t *testing.T, clock *fakeClock, warn func(node.Node, string)) [3]*Node {
	var nodes [3]*Node
	g := node.Group{MaxTTL: 30 * time.Second, Warn: warn}
	for i := range nodes {
		nodes[i] = New(string(rune('a'+i)), WithClock(clock.Now))
		g.Nodes = append(g.Nodes, nodes[i])
	}
	for _, n := range nodes {
		if err := n.Join(g); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

func TestRejoinRebuildsRegistersAfterTheQuarantine(t *testing.T) {
	clock := new(fakeClock)
	nodes, ctx := group(t, clock, func(_ node.Node, m string) { t.Error("a warning:", m) }), t.Context()
	for _, n := range nodes {
		must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 1000))))
	}
	nodes[0].Crash()
	nodes[0].Restart()
	clock.Advance(30*time.Second + rule.Drift(30*time.Second) - 1)
	must(t, node.Rejoining)(nodes[0].Do(ctx, as(node.Acquire, request("x", "two", 0))))
	clock.Advance(1)
	a := must(t, node.Granted)(nodes[0].Do(ctx, as(node.Acquire, request("x", "two", 0))))
	if a.Register != 1001 {
		t.Errorf("the first grant after the rejoining is %d, want 1001", a.Register)
	}
}

func TestRejoinNeedsAMajority(t *testing.T) {
	clock, warned := new(fakeClock), 0
	nodes, ctx := group(t, clock, func(node.Node, string) { warned++ }), t.Context()
	for _, n := range nodes {
		n.Crash()
	}
	nodes[0].Restart()
	clock.Advance(time.Hour)
	must(t, node.Rejoining)(nodes[0].Do(ctx, as(node.Acquire, request("x", "one", 0))))
	nodes[1].Restart()
	must(t, node.Granted)(nodes[0].Do(ctx, as(node.Acquire, request("x", "one", 0))))
	if warned != 1 {
		t.Errorf("%d warnings about a rebuilding from nodes without memory, want 1", warned)
	}
}

// A token that is fixed at two nodes survives the loss of one while the other cannot be
// reached.
func TestRejoinWaitsForASilentNode(t *testing.T) {
	clock := new(fakeClock)
	nodes, ctx := group(t, clock, nil), t.Context()
	far := nodes[2].Share()
	nodes[2].Close() // a partition: the others do not see it
	must(t, node.Granted)(nodes[0].Do(ctx, as(node.Acquire, request("x", "one", 1000))))
	must(t, node.Granted)(far.Do(ctx, as(node.Acquire, request("x", "one", 1000))))
	nodes[0].Crash()
	nodes[0].Restart()
	clock.Advance(time.Hour)
	must(t, node.Rejoining)(nodes[0].Do(ctx, as(node.Acquire, request("x", "two", 0))))
}

func TestJoinTwice(t *testing.T) {
	n := New("a")
	g := node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second}
	if err := errors.Join(n.Join(g), n.Join(g)); err != nil {
		t.Error(err)
	}
	g.MaxTTL++
	if n.Join(g) == nil {
		t.Error("a node joined two groups")
	}
}

func TestListMayCallTheNode(t *testing.T) {
	n, ctx := New("a"), context.Background()
	must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 0))))
	err := n.List(ctx, "", func(l node.Lease) bool {
		_, err := n.Inspect(ctx, l.Name)
		return err == nil
	})
	if err != nil {
		t.Error(err)
	}
}

// as is the request for an operation.
func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}
