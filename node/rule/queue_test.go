package rule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// testQueue is a queue some of whose waiters are gone.
type testQueue struct {
	Waiters
	gone map[string]bool
	// until is when it is forgotten; nothing here forgets it.
	now, until time.Duration
}

func (q *testQueue) Renew()                       { q.until = q.now + QueueExpiry }
func (q *testQueue) Reachable(waiter string) bool { return !q.gone[waiter] }

// ahead is Ahead without its second result.
func (q *testQueue) ahead(waiter string) int {
	count, _ := q.Ahead(waiter)
	return count
}

// naive is a node with a queue for one name, written from what the contract says and not from
// queue.go. It keeps the waiters in a map and looks for the smallest each time. It keeps a name
// that is reserved in fields of its own.
type naive struct {
	register    fence.Token
	out         bool
	holder      node.Holder // of a lease
	reservedFor string      // a waiter
	until       time.Duration
	waiters     map[string]int64
	gone        map[string]bool
}

func (n *naive) end(now time.Duration) {
	if now >= n.until {
		n.holder, n.reservedFor = "", ""
	}
}

func (n *naive) free() bool { return n.holder == "" && n.reservedFor == "" }

// label is who refuses.
func (n *naive) label() string {
	if n.reservedFor != "" {
		return "the next in the queue"
	}
	return "" // holders here are not fenlock's
}

func (n *naive) enqueue(p node.Place) {
	if _, in := n.waiters[p.Waiter]; p.Waiter != "" && !in && len(n.waiters) < MaxQueue {
		n.waiters[p.Waiter] = p.Stamp
	}
}

func (n *naive) first() string {
	first := ""
	for w, stamp := range n.waiters {
		if first == "" || stamp < n.waiters[first] || stamp == n.waiters[first] && w < first {
			first = w
		}
	}
	return first
}

func (n *naive) ahead(waiter string) int {
	stamp, in := n.waiters[waiter]
	count := 0
	for w, s := range n.waiters {
		if !in || s < stamp || s == stamp && w < waiter {
			count++
		}
	}
	return count
}

// notifyUpTo notifies the first who can be reached, unless self comes before.
func (n *naive) notifyUpTo(self string, now time.Duration) string {
	for {
		first := n.first()
		if first == "" || first == self {
			return ""
		}
		delete(n.waiters, first)
		if !n.gone[first] {
			n.reservedFor, n.until = first, now+time.Second
			return first
		}
	}
}

func (n *naive) acquire(now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token,
	p node.Place) (node.Answer, string) {
	n.end(now)
	if n.out {
		return node.Answer{Status: node.Rejoining}, ""
	}
	its := n.reservedFor != "" && n.reservedFor == p.Waiter
	if its {
		n.reservedFor = ""
	}
	if !n.free() {
		n.enqueue(p)
		return node.Answer{Status: node.Held}, ""
	}
	if !its && len(n.waiters) > 0 {
		n.enqueue(p)
		if notify := n.notifyUpTo(p.Waiter, now); notify != "" {
			n.enqueue(p) // if the queue was full
			return node.Answer{Status: node.Held}, notify
		}
	}
	delete(n.waiters, p.Waiter)
	n.holder, n.until, n.register = holder, now+ttl, max(n.register+1, proposal)
	return node.Answer{Status: node.Granted, Register: n.register}, ""
}

func (n *naive) release(now time.Duration, holder node.Holder, p node.Place) (node.Answer, string) {
	n.end(now)
	reply, freed := node.Answer{Status: node.Lost}, false
	if holder != "" && n.holder == holder {
		n.holder, reply.Status, freed = "", node.Granted, true
	}
	if p.Waiter != "" && n.reservedFor == p.Waiter {
		n.reservedFor, freed = "", true
	}
	if p.Stamp != 0 {
		n.enqueue(p)
	} else {
		delete(n.waiters, p.Waiter)
	}
	if !freed {
		return reply, ""
	}
	return reply, n.notifyUpTo(p.Waiter, now)
}

func (n *naive) forceRelease(now time.Duration, floor fence.Token) (node.Answer, string) {
	if n.out {
		return node.Answer{Status: node.Rejoining}, ""
	}
	n.holder, n.reservedFor = "", ""
	n.register = max(n.register+1, floor)
	return node.Answer{Status: node.Granted, Register: n.register}, n.notifyUpTo("", now)
}

// A full queue takes no waiter, and loses none either.
func TestQueueIsBounded(t *testing.T) {
	l := &testQueue{}
	e := Entry{Holder: "h", Expires: time.Minute}
	asks := func(p node.Place) (node.Answer, string) {
		return Serve(&e, l, 0, node.Request{Op: node.Acquire, Holder: "other", TTL: time.Minute, Place: p})
	}
	for i := range MaxQueue {
		if a, _ := asks(node.Place{Waiter: fmt.Sprint(i), Stamp: int64(MaxQueue - i)}); a.Status != node.Held ||
			a.Ahead != 0 {
			t.Fatalf("%+v", a)
		}
	}
	if len(l.Waiters) != MaxQueue {
		t.Fatalf("%d in the queue", len(l.Waiters))
	}
	full := slices.Clone(l.Waiters)
	early := node.Place{Waiter: "early", Stamp: 0}

	// One that is refused polls: it sees all of them before it.
	if a, _ := asks(early); a.Status != node.Held || !slices.Equal(l.Waiters, full) || a.Ahead != MaxQueue {
		t.Errorf("on a full queue: %+v, %d in it", a, len(l.Waiters))
	}
	// A free name goes to the first in the queue, and there is room then.
	e.Holder = ""
	a, notify := asks(early)
	if a.Status != node.Held || notify != full[0].Waiter || len(l.Waiters) != MaxQueue || a.Ahead != 0 ||
		l.ahead("early") != 0 {
		t.Errorf("after a notification: %+v, notify %q, %d in the queue, %d ahead of the one who asked", a, notify,
			len(l.Waiters), l.ahead("early"))
	}
	// A client that asks when no waiter of a full queue can be reached is granted.
	e.Holder = ""
	l.gone = map[string]bool{}
	for _, p := range l.Waiters {
		l.gone[p.Waiter] = true
	}
	if a, notify := asks(node.Place{Waiter: "late", Stamp: 1 << 53}); a.Status != node.Granted || notify != "" ||
		len(l.Waiters) != 0 {
		t.Errorf("when nobody can be reached: %+v, notify %q, %d in the queue", a, notify, len(l.Waiters))
	}
}

// A reservation ends at once, one nanosecond on either side.
func TestReservationTTLIsExact(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  node.Status
	}{{ReservationTTL - 1, node.Held}, {ReservationTTL, node.Granted}} {
		e, l := Entry{Holder: "h", Expires: time.Minute}, &testQueue{Waiters: Waiters{{Waiter: "w", Stamp: 1}}}
		if a, notify := Serve(&e, l, 0, node.Request{Op: node.Release, Holder: "h"}); a.Status != node.Granted ||
			notify != "w" || e.Holder != node.Reserved("w") {
			t.Fatalf("release: %+v, notify %q, %+v", a, notify, e)
		}
		if a, _ := Serve(&e, l, c.after,
			node.Request{Op: node.Acquire, Holder: "other", TTL: time.Minute}); a.Status != c.want {
			t.Errorf("after %v: %+v; want %v", c.after, a, c.want)
		}
	}
}

// A client that is named in no queue must not be taken for a waiter: the empty waiter is none.
func TestNobodyIsNeverInAQueue(t *testing.T) {
	e, l := Entry{Holder: "h", Expires: time.Minute}, &testQueue{}
	for _, r := range []node.Request{
		{Op: node.Acquire, Holder: "other", TTL: time.Minute, Place: node.Place{Stamp: 1}},
		{Op: node.Acquire, Holder: "other", TTL: time.Minute, Place: node.Place{Waiter: "w", Stamp: 1}},
		{Op: node.Release, Holder: "other"},
		{Op: node.Release, Holder: "other", Place: node.Place{Stamp: 1}},
	} {
		Serve(&e, l, 0, r)
	}
	if count, in := l.Ahead(""); len(l.Waiters) != 1 || count != 1 || in || l.ahead("w") != 0 {
		t.Errorf("%v, %d ahead of nobody, who is in: %v", l.Waiters, count, in)
	}
}

// A waiter that comes or asks has the queue remembered; one that leaves does not, nor does the
// empty one.
func TestWhoRenewsTheQueue(t *testing.T) {
	w := node.Place{Waiter: "w", Stamp: 2}
	for name, c := range map[string]struct {
		holder node.Holder // of the lease
		r      node.Request
		renews bool
	}{
		"refused":         {"h", node.Request{Op: node.Acquire, Holder: "i", Place: w}, true},
		"refused, nobody": {"h", node.Request{Op: node.Acquire, Holder: "i"}, false},
		"refused, a newcomer": {"h", node.Request{Op: node.Acquire, Holder: "i", Place: node.Place{Waiter: "x", Stamp: 3}},
			true},
		"first":        {"", node.Request{Op: node.Acquire, Holder: "i", Place: w}, true},
		"free, nobody": {"", node.Request{Op: node.Acquire, Holder: "i"}, false},
		"reserved": {node.Reserved("x"),
			node.Request{Op: node.Acquire, Holder: "i", Place: node.Place{Waiter: "x", Stamp: 3}}, false},
		"confirm":         {"h", node.Request{Op: node.Confirm, Holder: "h", Place: w}, false},
		"extend":          {"h", node.Request{Op: node.Extend, Holder: "h", Place: w}, false},
		"goes on waiting": {"h", node.Request{Op: node.Release, Holder: "i", Place: w}, true},
		"leaves":          {"h", node.Request{Op: node.Release, Holder: "i", Place: node.Place{Waiter: "w"}}, false},
		"release":         {"h", node.Request{Op: node.Release, Holder: "h"}, false},
		"force release":   {"h", node.Request{Op: node.ForceRelease, Place: w}, false},
	} {
		e := Entry{Holder: c.holder, Expires: time.Minute}
		l := &testQueue{Waiters: Waiters{{Waiter: "w", Stamp: 2}, {Waiter: "y", Stamp: 4}}}
		c.r.TTL = time.Minute
		Serve(&e, l, 0, c.r)
		if renewed := l.until != 0; renewed != c.renews {
			t.Errorf("%s: renewed %v; want %v", name, renewed, c.renews)
		}
	}
}
