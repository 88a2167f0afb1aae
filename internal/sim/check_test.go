package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

func want(t *testing.T, violation, text string) {
	t.Helper()
	if text == "" && violation != "" || text != "" && !strings.Contains(violation, text) {
		t.Errorf("got %q; want %q", violation, text)
	}
}

// What is left over, made by hand, and beside it what may be.
func TestLeftovers(t *testing.T) {
	who := strings.Repeat("c", node.IDLength)
	for name, test := range map[string]struct {
		holder       int
		waiter       string
		lease, queue time.Duration // how long they last
		inMemory     int
		held         []*lock
		want         string
	}{
		"nothing":          {},
		"an old lease":     {holder: 7, lease: time.Second},
		"a new lease":      {holder: 8, lease: time.Second, want: "still leased"},
		"an endless lease": {holder: 7, lease: time.Hour, want: "does not end"},
		"an old waiter":    {waiter: who + ":3:", queue: time.Second},
		"a new waiter":     {waiter: who + ":4:", queue: time.Second, want: "still in the queue"},
		"an endless queue": {waiter: who + ":3:label", queue: time.Hour, want: "kept for ever"},
		"a waiter":         {inMemory: 1, want: "not forgotten"},
		"a held lock":      {held: []*lock{{}}, want: "have not ended"},
	} {
		w := &world{clients: []*client{{held: test.held}}}
		w.now = 1000 * time.Second
		w.remains = remains{longest: 10 * time.Second, lastIdentity: 7, lastWaiter: map[string]uint64{who: 3}}
		n := &server{w: &w.run}
		w.nodes = []*server{n}
		n.store.Leases = map[string]rule.Lease{"a": {Holder: identityOf(test.holder), Expires: w.now + test.lease}}
		queue := rule.QueueRecord{Waiters: rule.Waiters{{Waiter: test.waiter, Stamp: 1}}, Expires: w.now + test.queue}
		n.store.Queues = map[string]rule.QueueRecord{"a": queue}
		w.leftovers(func(*client) int { return test.inMemory })
		text := ""
		for _, v := range w.result.Violations {
			text += v.Text
		}
		t.Run(name, func(t *testing.T) { want(t, text, test.want) })
	}
}

// oneLock is a world in which a client has a lock of name 0 until 10 s.
func oneLock(p profile) (*world, *lock) {
	w := &world{run: run{profile: p, names: []string{"a name"}}, rules: shipped(), nodes: make([]*server, 3)}
	for range 2 {
		w.add(clock{}).waiting = make([][]*acquisition, 1)
	}
	c := w.clients[0]
	c.maxHold = 20 * time.Second
	return w, &lock{c: c, a: &acquisition{}, id: 1, holder: identityOf(1), until: 10 * time.Second}
}

func TestTenureCheck(t *testing.T) {
	_, l := oneLock(profile{})
	want(t, l.tooLong(), "")
	l.until = 20*time.Second + 1
	want(t, l.tooLong(), "1ns beyond its maximum hold")
	l.c.maxHold = 0
	want(t, l.tooLong(), "")

	_, l = oneLock(profile{})
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
	l.refused(0, 1, true)
	l.refused(0, 1, true)
	l.refused(1, 1, false)
	l.c.w.now = 9 * time.Second
	want(t, l.endedWrongly(), "although 2 of 3")
	l.refused(1, 1, true)
	want(t, l.endedWrongly(), "")
	l.refused(2, 2, false)
	want(t, l.endedWrongly(), "although 3 of 3")
	l.released = true
	want(t, l.endedWrongly(), "")
}

func TestOrderCheck(t *testing.T) {
	calm := profile{only: gaveUpWaiting, agree: true, users: 1}
	w, l := oneLock(calm)
	l.began = 5 * time.Second
	a := &acquisition{c: w.clients[1], came: 5*time.Second - moment}
	w.clients[1].waiting[0] = []*acquisition{a}
	want(t, l.overtook(), "")
	a.came--
	want(t, l.overtook(), "client 1 has waited 1.000000001s longer")
	l.a = &acquisition{waits: true, came: time.Second}
	want(t, l.overtook(), "")
	l.a = &acquisition{}
	a.gaveUp = true
	want(t, l.overtook(), "")
	a.gaveUp, l.c.w.profile.loss = false, 1
	want(t, l.overtook(), "")
}

func TestCostCheck(t *testing.T) {
	_, l := oneLock(profile{})
	a := &acquisition{c: l.c, tries: 20}
	want(t, a.tooOften(), "")
	a.tries++
	want(t, a.tooOften(), "has tried 21 times")
	a.c.w.now = 5 * time.Millisecond
	want(t, a.tooOften(), "")
	_, l = oneLock(profile{only: gaveUpWaiting})
	a = &acquisition{c: l.c, tries: 10}
	want(t, a.tooOften(), "has tried 10 times")
	a.c.w.now = 50 * time.Millisecond
	want(t, a.tooOften(), "")
}

// Leases that an attempt left behind are noticed in a calm world, those that are
// held or are on their way out are not.
func TestLookTwice(t *testing.T) {
	for name, test := range map[string]struct {
		holder node.Holder
		gone   time.Duration
		want   int
	}{
		"abandoned":     {identityOf(7), time.Hour, 1},
		"released":      {identityOf(7), 1200 * time.Millisecond, 0},
		"held":          {identityOf(1), time.Hour, 0},
		"a new attempt": {identityOf(8), time.Hour, 0},
		"reserved":      {node.Reserved("c0.0:1"), time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := oneLock(profile{})
			w.engine, w.remains.oldIdentity, l.c.held = newEngine(0), 7, []*lock{l}
			w.nodes = []*server{{w: &w.run}}
			w.nodes[0].store.Leases = map[string]rule.Lease{w.names[0]: {Holder: test.holder, Expires: test.gone}}
			w.lookTwice()
			for w.step() {
			}
			if len(w.result.Violations) != test.want {
				t.Errorf("%v; want %d", w.result.Violations, test.want)
			}
		})
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

func identityOf(n int) node.Holder { return node.Holder(identity(n) + "@1:label") }
