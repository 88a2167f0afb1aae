package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/rule"
)

// Every checker sees a bad history made by hand, and nothing in the good one
// beside it.

func want(t *testing.T, violation, text string) {
	t.Helper()
	if text == "" && violation != "" || text != "" && !strings.Contains(violation, text) {
		t.Errorf("got %q; want %q", violation, text)
	}
}

func TestValidityCheck(t *testing.T) {
	c := newValidityCheck(2)
	want(t, c.begins(0, 1, 10, 0, 100), "")
	want(t, c.begins(1, 2, 10, 50, 150), "")
	want(t, c.extended(0, 1, 60, 160), "")
	if !c.held(159) || c.held(160) {
		t.Error("held is wrong")
	}
	want(t, c.begins(0, 3, 11, 160, 260), "")
	want(t, c.begins(0, 4, 12, 259, 300), "attempt 3 holds it with token 11 for another 1ns")
	c = newValidityCheck(1)
	c.begins(0, 1, 10, 0, 100)
	c.ends(0, 1)
	want(t, c.begins(0, 2, 11, 50, 150), "")
	want(t, c.extended(0, 1, 60, 200), "a lock that has ended")
	c = newValidityCheck(1)
	c.begins(0, 1, 10, 0, 100)
	want(t, c.extended(0, 1, 100, 200), "a lock that has ended")
}

func TestTokenCheck(t *testing.T) {
	c := newTokenCheck(2)
	want(t, c.acquired(0, 1, 10, 0, 5), "")
	want(t, c.acquired(1, 2, 10, 0, 6), "")
	want(t, c.acquired(0, 3, 12, 4, 7), "")
	want(t, c.acquired(0, 4, 11, 6, 8), "") // began before attempt 3 finished
	want(t, c.acquired(0, 5, 11, 6, 9), "both have token 11")
	want(t, c.acquired(0, 6, 9, 8, 10), "attempt 3 finished with 12 before")
	want(t, c.acquired(0, 7, 9, 5, 11), "both have token 9")

	want(t, c.extended(0, 1, 10, 7), "")
	want(t, c.extended(0, 1, 10, 8), "attempt 3 had acquired it with 12")
	want(t, c.extended(0, 3, 12, 100), "")
	want(t, c.extended(1, 2, 10, 100), "")
}

func TestUpdateCheck(t *testing.T) {
	c := newUpdateCheck(2)
	c.read(0, 5)
	want(t, c.wrote(0, 5, 0, 1), "")
	c.read(0, 6)
	want(t, c.wrote(0, 5, 1, 2), "token 5 after it was used with 6")
	c.read(1, 5)
	want(t, c.wrote(1, 6, 0, 1), "")
	want(t, c.wrote(1, 6, 0, 1), "updates are lost")
}

func TestProgressCheck(t *testing.T) {
	c := newProgressCheck(2, 10, 100)
	c.begins(0, 0)
	want(t, c.served(0, 99), "")
	c.begins(0, 50)
	want(t, c.served(0, 110), "")
	c.begins(0, 50)
	want(t, c.served(0, 111), "has waited for 11ns")
	c.begins(1, 105)
	want(t, c.finish(115), "client 1 still waits")
	c.ends(1)
	want(t, c.finish(115), "")
}

func TestLeftovers(t *testing.T) {
	const end = 1000 * time.Second
	for name, test := range map[string]struct {
		leave func(n *node, c *client)
		want  string
	}{
		"nothing":          {func(*node, *client) {}, ""},
		"an old lease":     {func(n *node, _ *client) { n.leases[0] = lease{"attempt 7", end + time.Second} }, ""},
		"a new lease":      {func(n *node, _ *client) { n.leases[0] = lease{"attempt 8", end + time.Second} }, "still leased"},
		"an endless lease": {func(n *node, _ *client) { n.leases[0] = lease{"attempt 7", end + time.Hour} }, "does not end"},
		"an old waiter": {func(n *node, _ *client) {
			n.lines[0] = queue{rule.Line{{Waiter: "c0.0:3", Stamp: 1}}, end + time.Second}
		}, ""},
		"a new waiter": {func(n *node, _ *client) {
			n.lines[0] = queue{rule.Line{{Waiter: "c0.0:4", Stamp: 1}}, end + time.Second}
		}, "still in the line"},
		"an endless line": {func(n *node, _ *client) {
			n.lines[0] = queue{rule.Line{{Waiter: "c0.0:3", Stamp: 1}}, end + time.Hour}
		}, "kept for ever"},
		"a waiter":    {func(_ *node, c *client) { c.lines.waiters = append(c.lines.waiters, &waiter{}) }, "not forgotten"},
		"a held lock": {func(_ *node, c *client) { c.held = append(c.held, &lock{}) }, "have not ended"},
	} {
		n, c := &node{leases: make([]lease, 1), lines: make([]queue, 1)}, &client{}
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
