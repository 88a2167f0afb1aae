package sim

import (
	"strings"
	"testing"
	"time"

	contract "github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

func want(t *testing.T, violation, text string) {
	t.Helper()
	if text == "" && violation != "" || text != "" && !strings.Contains(violation, text) {
		t.Errorf("got %q; want %q", violation, text)
	}
}

func leased(holder contract.Holder, expires time.Duration) map[string]rule.Lease {
	return map[string]rule.Lease{"a": {Holder: holder, Expires: expires}}
}

func waited(waiter string, expires time.Duration) map[string]rule.QueueRecord {
	return map[string]rule.QueueRecord{"a": {Waiters: rule.Waiters{{Waiter: waiter, Stamp: 1}}, Expires: expires}}
}

// What is left over, made by hand, and beside it what may be.
func TestLeftovers(t *testing.T) {
	const end = 1000 * time.Second
	for name, test := range map[string]struct {
		leave func(n *node, c *client)
		want  string
	}{
		"nothing":          {func(*node, *client) {}, ""},
		"an old lease":     {func(n *node, _ *client) { n.store.Leases = leased("attempt 7", end+time.Second) }, ""},
		"a new lease":      {func(n *node, _ *client) { n.store.Leases = leased("attempt 8", end+time.Second) }, "still leased"},
		"an endless lease": {func(n *node, _ *client) { n.store.Leases = leased("attempt 7", end+time.Hour) }, "does not end"},
		"an old waiter": {func(n *node, _ *client) {
			n.store.Queues = waited("c0.0:3", end+time.Second)
		}, ""},
		"a new waiter": {func(n *node, _ *client) {
			n.store.Queues = waited("c0.0:4", end+time.Second)
		}, "still in the line"},
		"an endless line": {func(n *node, _ *client) {
			n.store.Queues = waited("c0.0:3", end+time.Hour)
		}, "kept for ever"},
		"a waiter":    {func(_ *node, c *client) { c.lines.waiters = append(c.lines.waiters, &waiter{}) }, "not forgotten"},
		"a held lock": {func(_ *node, c *client) { c.held = append(c.held, &lock{}) }, "have not ended"},
	} {
		n, c := &node{}, &client{}
		test.leave(n, c)
		r := remains{at: end, longest: 10 * time.Second, lastAttempt: 7, lastWaiter: map[string]uint64{"c0.0": 3},
			nodes: []*node{n}, clients: []*client{c}}
		t.Run(name, func(t *testing.T) { want(t, strings.Join(r.leftovers(), "; "), test.want) })
	}
}

func TestClock(t *testing.T) {
	for _, c := range []clock{{0, 0}, {5000, time.Hour}, {-5000, 99 * time.Hour}, {1, -time.Second}} {
		for _, at := range []time.Duration{0, 1, time.Second, 1234567890123} {
			local := c.local(at)
			if back := c.truth(local); c.local(back) < local || c.local(back-1) >= local {
				t.Errorf("%+v: %v shows %v, which is %v", c, at, local, back)
			}
		}
	}
}

func TestAgendaIsInOrder(t *testing.T) {
	g := newEngine(1)
	last, ran := time.Duration(-1), 0
	for range 1000 {
		at := g.upTo(100)
		g.at(at, func() {
			if g.now < last || g.now != at {
				t.Errorf("%v after %v, planned for %v", g.now, last, at)
			}
			last = g.now
			ran++
		})
	}
	for g.step() {
	}
	if ran != 1000 {
		t.Errorf("%d of 1000 events", ran)
	}
}
