package memnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
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

func TestConformanceOnTheDefaultClock(t *testing.T) {
	nodetest.Run(t, func(t *testing.T) nodetest.Harness {
		n := New("memory")
		return nodetest.Harness{Node: n, Other: n.Share(), Wait: time.Sleep}
	})
}

func request(name, holder string, token fence.Token) fenlock.Request {
	id := fmt.Sprintf("%032x", holder)
	return fenlock.Request{Name: name, Holder: fenlock.Holder(id[len(id)-32:] + ":" + holder), TTL: 10 * time.Second, Token: token}
}

func must(t *testing.T, want fenlock.Status) func(fenlock.Answer, error) fenlock.Answer {
	return func(a fenlock.Answer, err error) fenlock.Answer {
		t.Helper()
		if err != nil || a.Status != want {
			t.Fatalf("got %+v, %v; want %v", a, err, want)
		}
		return a
	}
}

// One nanosecond on either side of the expiry.
func TestExpiryIsExact(t *testing.T) {
	clock := new(fakeClock)
	n, ctx := New("a", WithClock(clock.Now)), t.Context()
	must(t, fenlock.Granted)(n.Acquire(ctx, request("x", "one", 0)))
	clock.Advance(10*time.Second - 1)
	must(t, fenlock.Held)(n.Acquire(ctx, request("x", "two", 0)))
	clock.Advance(1)
	must(t, fenlock.Lost)(n.Confirm(ctx, request("x", "one", 1)))
	must(t, fenlock.Granted)(n.Acquire(ctx, request("x", "two", 0)))
}

// Names that are used once and never again must not stay in memory (the bug
// of Redisson #6510), and a sweep must not take a live one.
func TestExpiredLeasesAreFreed(t *testing.T) {
	clock := new(fakeClock)
	n, ctx := New("a", WithClock(clock.Now)), t.Context()
	keeper := request("keep", "keeper", 0)
	keeper.TTL = time.Hour
	must(t, fenlock.Granted)(n.Acquire(ctx, keeper))
	largest := 0
	for i := range 50_000 {
		r := request(fmt.Sprint("name ", i), "h", 0)
		r.TTL = time.Second
		must(t, fenlock.Granted)(n.Acquire(ctx, r))
		largest = max(largest, len(n.store.leases))
		clock.Advance(10 * time.Millisecond) // so that 100 are live at any time
	}
	if largest > 2*101+firstSweep {
		t.Errorf("up to %d leases were kept for 101 live ones", largest)
	}
	if len(n.store.registers) > fenlock.Stripes {
		t.Errorf("%d registers", len(n.store.registers))
	}
	must(t, fenlock.Held)(n.Acquire(ctx, request("keep", "other", 0)))
}

func TestCrashRestartAdmit(t *testing.T) {
	n, ctx := New("a"), t.Context()
	other := n.Share()
	got := must(t, fenlock.Granted)(n.Acquire(ctx, request("x", "one", 100)))
	n.Restart() // up already: nothing happens
	must(t, fenlock.Held)(n.Acquire(ctx, request("x", "two", 0)))

	n.Crash()
	if _, err := other.Acquire(ctx, request("x", "two", 0)); !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "memnode a") {
		t.Errorf("while down: %v", err)
	}
	n.Restart()
	if a := must(t, fenlock.Rejoining)(other.Acquire(ctx, request("x", "two", 0))); a.Detail == "" {
		t.Error("no detail says why the node is out")
	}
	must(t, fenlock.Rejoining)(n.Extend(ctx, request("x", "one", got.Register)))
	must(t, fenlock.Rejoining)(n.Confirm(ctx, request("x", "one", got.Register)))
	must(t, fenlock.Rejoining)(n.ForceRelease(ctx, "x", 0))
	must(t, fenlock.Lost)(n.Release(ctx, request("x", "one", 0)))

	n.Admit(map[int]fence.Token{fenlock.Stripe("x"): got.Register})
	must(t, fenlock.Granted)(n.Extend(ctx, request("x", "one", got.Register)))
	if l, err := n.Inspect(ctx, "x"); err != nil || l.Register != got.Register || l.Label != "one" {
		t.Errorf("after the repair: %+v, %v", l, err)
	}
}

// group returns three joined nodes on one clock.
func group(t *testing.T, clock *fakeClock, warn func(fenlock.Node, string)) [3]*Node {
	var nodes [3]*Node
	g := fenlock.Group{MaxTTL: 30 * time.Second, Warn: warn}
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
	nodes, ctx := group(t, clock, func(_ fenlock.Node, m string) { t.Error("a warning:", m) }), t.Context()
	for _, n := range nodes {
		must(t, fenlock.Granted)(n.Acquire(ctx, request("x", "one", 1000)))
	}
	nodes[0].Crash()
	nodes[0].Restart()
	clock.Advance(30*time.Second + core.Drift(30*time.Second) - 1)
	must(t, fenlock.Rejoining)(nodes[0].Acquire(ctx, request("x", "two", 0)))
	clock.Advance(1)
	a := must(t, fenlock.Granted)(nodes[0].Acquire(ctx, request("x", "two", 0)))
	if a.Register != 1001 {
		t.Errorf("the first grant after the rejoining is %d, want 1001", a.Register)
	}
}

func TestRejoinNeedsAMajority(t *testing.T) {
	clock, warned := new(fakeClock), 0
	nodes, ctx := group(t, clock, func(fenlock.Node, string) { warned++ }), t.Context()
	for _, n := range nodes {
		n.Crash()
	}
	nodes[0].Restart()
	clock.Advance(time.Hour)
	must(t, fenlock.Rejoining)(nodes[0].Acquire(ctx, request("x", "one", 0)))
	nodes[1].Restart()
	must(t, fenlock.Granted)(nodes[0].Acquire(ctx, request("x", "one", 0)))
	if warned != 1 {
		t.Errorf("%d warnings about a rebuilding from nodes without memory, want 1", warned)
	}
}

func TestJoinTwice(t *testing.T) {
	n := New("a")
	g := fenlock.Group{Nodes: []fenlock.Node{n}, MaxTTL: time.Second}
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
	must(t, fenlock.Granted)(n.Acquire(ctx, request("x", "one", 0)))
	err := n.List(ctx, func(l fenlock.Lease) bool {
		_, err := n.Inspect(ctx, l.Name)
		return err == nil
	})
	if err != nil {
		t.Error(err)
	}
}
