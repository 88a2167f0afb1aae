package sim

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	contract "github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// oneLock is a world in which a client has a lock of name 0 until 10 s.
func oneLock(p profile) *lock {
	w := &world{rules: shipped(), profile: p, names: []string{"a name"}}
	w.nodes = make([]*node, 3)
	c := &client{w: w, maxHold: 20 * time.Second, queues: make([][]*acquisition, 1)}
	w.clients = []*client{c, {w: w, id: 1, queues: make([][]*acquisition, 1)}}
	return &lock{c: c, id: 1, until: 10 * time.Second}
}

func TestTenureCheck(t *testing.T) {
	l := oneLock(profile{})
	want(t, l.tooLong(), "")
	l.until = 20*time.Second + 1
	want(t, l.tooLong(), "1ns beyond its maximum hold")
	l.c.maxHold = 0
	want(t, l.tooLong(), "")

	l = oneLock(profile{})
	for _, c := range []struct {
		now, paused time.Duration
		want        string
	}{
		{10 * time.Second, 0, ""},
		{10*time.Second + 2*time.Millisecond, 0, "outlives its validity by 2ms"},
		{12 * time.Second, 12 * time.Second, ""},
		{13 * time.Second, 12 * time.Second, "outlives its validity by 1s"},
		{9 * time.Second, 0, "with 1s of its validity left, although 3 of 3"},
	} {
		l.c.w.now, l.c.pausedUntil = c.now, c.paused
		want(t, l.endedWrongly(), c.want)
	}
	l.c.pausedUntil = 0
	l.refused(0, 1, core.Lost)
	l.refused(0, 1, core.Lost)
	l.refused(1, 1, core.Unknown)
	l.c.w.now = 9 * time.Second
	want(t, l.endedWrongly(), "although 2 of 3")
	l.refused(1, 1, core.Lost)
	want(t, l.endedWrongly(), "")
	l.refused(2, 2, core.Granted)
	want(t, l.endedWrongly(), "although 3 of 3")
	l.released = true
	want(t, l.endedWrongly(), "")
}

func TestOrderCheck(t *testing.T) {
	calm := profile{only: gaveUpWaiting, agree: true, users: 1}
	l := oneLock(calm)
	l.began = 5 * time.Second
	a := &acquisition{c: l.c.w.clients[1], came: 5*time.Second - moment}
	l.c.w.clients[1].queues[0] = []*acquisition{a}
	want(t, l.overtook(), "")
	a.came--
	want(t, l.overtook(), "client 1 has waited 1.000000001s longer")
	l.waiter = &waiter{a: &acquisition{came: time.Second}}
	want(t, l.overtook(), "")
	l.waiter = nil
	a.gaveUp = true
	want(t, l.overtook(), "")
	a.gaveUp, l.c.w.profile.loss = false, 1
	want(t, l.overtook(), "")
}

func TestCostCheck(t *testing.T) {
	a := &acquisition{c: oneLock(profile{}).c, tries: 20}
	want(t, a.tooOften(), "")
	a.tries++
	want(t, a.tooOften(), "has tried 21 times")
	a.c.w.now = 5 * time.Millisecond
	want(t, a.tooOften(), "")
	a = &acquisition{c: oneLock(profile{only: gaveUpWaiting}).c, tries: 6}
	want(t, a.tooOften(), "has tried 6 times")
	a.c.w.now = 50 * time.Millisecond
	want(t, a.tooOften(), "")
}

// Leases that an attempt left behind are noticed in a calm world, those that are
// held or are on their way out are not.
func TestLookTwice(t *testing.T) {
	for name, test := range map[string]struct {
		holder contract.Holder
		gone   time.Duration
		want   int
	}{
		"abandoned":       {"attempt 7", time.Hour, 1},
		"released":        {"attempt 7", 1200 * time.Millisecond, 0},
		"held":            {"attempt 1", time.Hour, 0},
		"a new attempt":   {"attempt 8", time.Hour, 0},
		"kept for a call": {"next:c0.0:1", time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := oneLock(profile{})
			w := l.c.w
			w.engine, w.remains.oldAttempt, l.c.held = newEngine(0), 7, []*lock{l}
			w.nodes = []*node{newNode(w, 0)}
			w.nodes[0].store.Leases = map[string]rule.Lease{w.names[0]: {Holder: test.holder, Expires: test.gone}}
			w.lookTwice()
			for w.step() {
			}
			if len(w.violations) != test.want {
				t.Errorf("%v; want %d", w.violations, test.want)
			}
		})
	}
}
