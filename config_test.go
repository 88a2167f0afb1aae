package fenlock_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// nodes returns so many different nodes.
func nodes(n int) []fenlock.Node {
	var all []fenlock.Node
	for i := range n {
		all = append(all, memnode.New(fmt.Sprint("node-", i)))
	}
	return all
}

// Every relation that does not hold is refused when the Locker is made. The error prints both
// sides: what was set, and what it is measured against.
func TestNewRefusesBadRelations(t *testing.T) {
	same := memnode.New("twice")
	for _, test := range []struct {
		what   string
		config fenlock.Config
		prints []string
	}{
		{"no nodes", fenlock.Config{}, []string{"Nodes"}},
		{"too many nodes", fenlock.Config{Nodes: nodes(16)}, []string{"16", "15"}},
		{"nil node", fenlock.Config{Nodes: append(nodes(2), nil)}, []string{"Nodes[2]", "nil"}},
		{"a node that would vote twice", fenlock.Config{Nodes: []fenlock.Node{same, memnode.New("x"), same}},
			[]string{"[0]", "[2]", "twice"}},
		{"TTL below the minimum", fenlock.Config{Nodes: nodes(1), TTL: 99 * time.Millisecond}, []string{"99ms", "100ms"}},
		{"TTL of a fraction of a millisecond", fenlock.Config{Nodes: nodes(1), TTL: time.Second + 1},
			[]string{"1.000000001s", "millisecond"}},
		{"TTL above MaxTTL", fenlock.Config{Nodes: nodes(1), TTL: 31 * time.Second}, []string{"31s", "30s"}},
		{"default TTL above MaxTTL", fenlock.Config{Nodes: nodes(1), MaxTTL: time.Second}, []string{"10s", "1s"}},
		{"MaxTTL above a day", fenlock.Config{Nodes: nodes(1), MaxTTL: 24*time.Hour + 1},
			[]string{"24h0m0.000000001s", "24h"}},
		{"NodeTimeout below a millisecond", fenlock.Config{Nodes: nodes(1), NodeTimeout: time.Millisecond - 1},
			[]string{"999.999µs", "1ms"}},
		{"NodeTimeout above a quarter of the TTL",
			fenlock.Config{Nodes: nodes(1), TTL: time.Second, NodeTimeout: 250*time.Millisecond + 1},
			[]string{"250.000001ms", "1s"}},
		{"MaxHold below the TTL", fenlock.Config{Nodes: nodes(1), MaxHold: 10*time.Second - 1},
			[]string{"9.999999999s", "10s"}},
		{"label too long", fenlock.Config{Nodes: nodes(1), Label: strings.Repeat("x", 129)}, []string{"129", "128"}},
		{"label not UTF-8", fenlock.Config{Nodes: nodes(1), Label: "a\xff"}, []string{"Label", `\xff`}},
		{"label with a control character", fenlock.Config{Nodes: nodes(1), Label: "a\nb"}, []string{"Label", `\n`}},
	} {
		t.Run(test.what, func(t *testing.T) {
			l, err := fenlock.New(test.config)
			wantErr(t, err, fenlock.ErrInvalid)
			if l != nil {
				t.Error("a Locker beside the error")
			}
			for _, s := range test.prints {
				if err != nil && !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not print %s: %v", s, err)
				}
			}
		})
	}
}

// sliceNode is a Node that cannot be compared: == on it panics.
type sliceNode struct {
	fenlock.Node
	_ []int
}

func TestNewTakesNodesThatCannotBeCompared(t *testing.T) {
	all := nodes(3)
	for i, n := range all {
		all[i] = sliceNode{Node: n}
	}
	newLocker(t, fenlock.Config{Nodes: all}) // does not panic
}

// The caller's slice is the caller's: what it does with it later is no concern
// of a quorum group that must not change.
func TestNewCopiesTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := nodes(3)
		mine := slices.Clone(all)
		l := newLocker(t, fenlock.Config{Nodes: mine})
		clear(mine)
		lock := take(t, l, name)
		synctest.Wait()
		for _, n := range all {
			if lease, err := n.Engine().(node.Admin).Inspect(t.Context(), name); err != nil || lease.Remaining == 0 {
				t.Errorf("node %s has no lease: %v", n, err)
			}
		}
		wantErr(t, lock.Release(t.Context()))
	})
}

// A node that is in another group already would take part in two quorums.
func TestNewRefusesANodeOfAnotherGroup(t *testing.T) {
	all := nodes(3)
	newLocker(t, fenlock.Config{Nodes: all})
	newLocker(t, fenlock.Config{Nodes: all}) // the same one again: a second Locker of the same process
	_, err := fenlock.New(fenlock.Config{Nodes: all, MaxTTL: time.Minute})
	wantErr(t, err, fenlock.ErrInvalid)
	if err != nil && !strings.Contains(err.Error(), "1m0s") {
		t.Errorf("the error does not print the MaxTTL: %v", err)
	}
}

// Four nodes survive the loss of one, as three do: worth a line, not an error.
func TestEvenNumberOfNodesIsAWarning(t *testing.T) {
	for n := 1; n <= 5; n++ {
		lines := 0
		newLocker(t, fenlock.Config{Nodes: nodes(n), Logger: slog.New(funcHandler(func(slog.Record) { lines++ }))})
		if want := 1 - n%2; lines != want {
			t.Errorf("%d nodes: %d warnings, want %d", n, lines, want)
		}
	}
}

// Each default is what its comment says. The lease has the TTL. A hung node costs a twentieth of
// it, within 25 ms to 1 s.
func TestDefaults(t *testing.T) {
	for _, test := range []struct{ ttl, lease, timeout time.Duration }{
		{0, fenlock.DefaultTTL, 500 * time.Millisecond},
		{fenlock.MinTTL, fenlock.MinTTL, 25 * time.Millisecond},
		{501 * time.Millisecond, 501 * time.Millisecond, 25050 * time.Microsecond},
		{30 * time.Second, 30 * time.Second, time.Second},
	} {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			l := c.locker(func(config *fenlock.Config) { config.TTL = test.ttl; config.Label = "" })
			lock := take(t, l, name)
			if lease := c.lease(0, name); lease.Remaining != test.lease || !strings.Contains(lease.Label, "/") {
				t.Errorf("the lease is %+v, want one for %v, labelled host/pid", lease, test.lease)
			}
			wantErr(t, lock.Release(t.Context()))
			c.set(0, 1, acquire, fault{hang: true})
			_, err := l.TryAcquire(t.Context(), name)
			wantErr(t, err, fenlock.ErrNoQuorum)
			c.wantNow(test.timeout)
		})
	}
}
