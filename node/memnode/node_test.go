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
	if _, err := other.Registers(ctx); !errors.Is(err, ErrDown) {
		t.Errorf("its registers while down: %v", err)
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
