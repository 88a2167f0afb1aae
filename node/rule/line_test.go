package rule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// naive is a node with a line for one name, written from what the contract says
// and not from line.go: it keeps the waiters in a map and looks for the smallest
// each time, and keeps a name in fields of its own.
type naive struct {
	register fence.Token
	out      bool
	holder   node.Holder // of a lease
	keptFor  string      // a waiter
	until    time.Duration
	waiters  map[string]int64
	gone     map[string]bool
}

func (n *naive) end(now time.Duration) {
	if now >= n.until {
		n.holder, n.keptFor = "", ""
	}
}

func (n *naive) free() bool { return n.holder == "" && n.keptFor == "" }

func (n *naive) join(p node.Place) {
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

// callUpTo calls the first who can be reached, unless self comes before.
func (n *naive) callUpTo(self string, now time.Duration) string {
	for {
		first := n.first()
		if first == "" || first == self {
			return ""
		}
		delete(n.waiters, first)
		if !n.gone[first] {
			n.keptFor, n.until = first, now+time.Second
			return first
		}
	}
}

func (n *naive) acquire(now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token, p node.Place) (Reply, string) {
	n.end(now)
	if n.out {
		return Reply{Status: node.Rejoining}, ""
	}
	its := n.keptFor != "" && n.keptFor == p.Waiter
	if its {
		n.keptFor = ""
	}
	if !n.free() {
		n.join(p)
		return Reply{Status: node.Held}, ""
	}
	if !its && len(n.waiters) > 0 {
		n.join(p)
		if called := n.callUpTo(p.Waiter, now); called != "" {
			n.join(p) // if the line was full
			return Reply{Status: node.Held}, called
		}
	}
	delete(n.waiters, p.Waiter)
	n.holder, n.until, n.register = holder, now+ttl, max(n.register+1, proposal)
	return Reply{Status: node.Granted, Register: n.register}, ""
}

func (n *naive) release(now time.Duration, holder node.Holder, p node.Place) (Reply, string) {
	n.end(now)
	reply, freed := Reply{Status: node.Lost}, false
	if holder != "" && n.holder == holder {
		n.holder, reply.Status, freed = "", node.Granted, true
	}
	if p.Waiter != "" && n.keptFor == p.Waiter {
		n.keptFor, freed = "", true
	}
	if p.Stamp != 0 {
		n.join(p)
	} else {
		delete(n.waiters, p.Waiter)
	}
	if !freed {
		return reply, ""
	}
	return reply, n.callUpTo(p.Waiter, now)
}

func (n *naive) forceRelease(now time.Duration, floor fence.Token) (Reply, string) {
	if n.out {
		return Reply{Status: node.Rejoining}, ""
	}
	n.holder, n.keptFor = "", ""
	n.register = max(n.register+1, floor)
	return Reply{Status: node.Granted, Register: n.register}, n.callUpTo("", now)
}

// Random operations on few waiters, holders and stamps, so that all of them meet:
// equal stamps, waiters that come again with another stamp, leases that end by
// themselves, waiters that cannot be reached, a node that is out.
func TestLineAgainstANaiveOne(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		e, l, now := Entry{}, Line(nil), time.Duration(0)
		n := &naive{waiters: map[string]int64{}, gone: map[string]bool{}}
		reachable := func(w string) bool { return !n.gone[w] }
		waiter := func() string { return []string{"", "a", "b", "c", "d", "e", "f"}[rng.IntN(7)] }
		var log []string
		for range 400 {
			p := node.Place{Waiter: waiter(), Stamp: int64(1 + rng.IntN(4))}
			holder := []node.Holder{"h1", "h2", "h3"}[rng.IntN(3)]
			ttl := time.Duration(1+rng.IntN(3000)) * time.Millisecond
			token := fence.Token(rng.IntN(50))
			var got, want Reply
			var gotCalled, wantCalled string
			var op string
			switch rng.IntN(10) {
			case 0, 1, 2, 3:
				op = fmt.Sprint("acquire ", string(holder), ttl, token, p)
				got, gotCalled = AcquireInLine(&e, &l, now, p, reachable, func(e *Entry) Reply { return Acquire(e, now, holder, ttl, token) })
				want, wantCalled = n.acquire(now, holder, ttl, token, p)
			case 4, 5, 6:
				if rng.IntN(2) == 0 {
					p.Stamp = 0
				}
				if rng.IntN(4) == 0 {
					holder = ""
				}
				op = fmt.Sprint("release ", string(holder), p)
				got, gotCalled = ReleaseInLine(&e, &l, now, holder, p, reachable)
				want, wantCalled = n.release(now, holder, p)
			case 7:
				if rng.IntN(4) > 0 {
					continue
				}
				op = fmt.Sprint("force release ", token)
				got, gotCalled = ForceReleaseInLine(&e, &l, now, reachable, func(e *Entry) Reply { return ForceRelease(e, now, token) })
				want, wantCalled = n.forceRelease(now, token)
			case 8:
				now += time.Duration(rng.IntN(1200)) * time.Millisecond
				continue
			case 9:
				if w := waiter(); w != "" {
					n.gone[w] = !n.gone[w] && rng.IntN(3) == 0
				}
				n.out = rng.IntN(20) == 0
				e.Out = n.out
				continue
			}
			log = append(log, fmt.Sprintf("%v: %s: %+v, called %q", now, op, got, gotCalled))
			n.end(now)
			same := got == want && gotCalled == wantCalled && e.Register == n.register &&
				e.Leased(now) == !n.free() && len(l) == len(n.waiters)
			if e.Leased(now) {
				same = same && e.Expires == n.until && e.Holder.Reserves() == (n.keptFor != "") &&
					(e.Holder == n.holder || e.Holder == node.Reserved(n.keptFor))
			}
			for _, w := range []string{"", "a", "b", "c", "d", "e", "f"} {
				same = same && l.Ahead(w) == n.ahead(w)
			}
			if !same {
				t.Fatalf("seed %d: the naive one says %+v, called %q, %+v; it is %+v, %v. The last operations:\n%s",
					seed, want, wantCalled, *n, e, l, tail(log, 12))
			}
		}
	}
}

func tail(log []string, n int) (text string) {
	for _, line := range log[max(0, len(log)-n):] {
		text += line + "\n"
	}
	return text
}

func everybody(string) bool { return true }

// A full line takes nobody, and loses nobody either.
func TestLineIsBounded(t *testing.T) {
	var l Line
	for i := range MaxQueue {
		l.Join(node.Place{Waiter: fmt.Sprint(i), Stamp: int64(MaxQueue - i)})
	}
	if len(l) != MaxQueue {
		t.Fatalf("%d in line", len(l))
	}
	full := slices.Clone(l)
	early := node.Place{Waiter: "early", Stamp: 0}
	l.Join(early)
	if !slices.Equal(l, full) {
		t.Fatal("a full line has changed")
	}

	// One that is refused polls: it sees all of them before it.
	e := Entry{Holder: "h", Expires: time.Minute}
	acquire := func(e *Entry) Reply { return Acquire(e, 0, "other", time.Minute, 0) }
	if r, _ := AcquireInLine(&e, &l, 0, early, everybody, acquire); r.Status != node.Held || !slices.Equal(l, full) || l.Ahead("early") != MaxQueue {
		t.Errorf("on a full line: %+v, %d in line, %d ahead", r, len(l), l.Ahead("early"))
	}
	// A free name goes to the first in line, and there is room then.
	e.Holder = ""
	r, called := AcquireInLine(&e, &l, 0, early, everybody, acquire)
	if r.Status != node.Held || called != full[0].Waiter || len(l) != MaxQueue || l.Ahead("early") != 0 {
		t.Errorf("after a call: %+v, called %q, %d in line, %d ahead of the one who asked", r, called, len(l), l.Ahead("early"))
	}
	// One whom nobody in a full line can be reached for is granted.
	e.Holder = ""
	if r, called := AcquireInLine(&e, &l, 0, node.Place{Waiter: "late", Stamp: 1 << 53}, func(string) bool { return false }, acquire); r.Status != node.Granted || called != "" || len(l) != 0 {
		t.Errorf("when nobody can be reached: %+v, called %q, %d in line", r, called, len(l))
	}
}

// The keeping ends at once, one nanosecond on either side.
func TestClaimWindowIsExact(t *testing.T) {
	acquire := func(now time.Duration) func(e *Entry) Reply {
		return func(e *Entry) Reply { return Acquire(e, now, "other", time.Minute, 0) }
	}
	for _, c := range []struct {
		after time.Duration
		want  node.Status
	}{{ReservationTTL - 1, node.Held}, {ReservationTTL, node.Granted}} {
		e, l := Entry{Holder: "h", Expires: time.Minute}, Line{{Waiter: "w", Stamp: 1}}
		if r, called := ReleaseInLine(&e, &l, 0, "h", node.Place{}, everybody); r.Status != node.Granted || called != "w" || e.Holder != node.Reserved("w") {
			t.Fatalf("release: %+v, called %q, %+v", r, called, e)
		}
		if r, _ := AcquireInLine(&e, &l, c.after, node.Place{}, everybody, acquire(c.after)); r.Status != c.want {
			t.Errorf("after %v: %+v; want %v", c.after, r, c.want)
		}
	}
}

// Who is named in no line must not be taken for one: the empty waiter is nobody.
func TestNobodyIsNeverInLine(t *testing.T) {
	var l Line
	l.Join(node.Place{Stamp: 1})
	l.Join(node.Place{Waiter: "w", Stamp: 1})
	l.Leave("")
	if len(l) != 1 || l.Ahead("") != 1 || l.Ahead("w") != 0 {
		t.Errorf("%v", l)
	}
	for holder, want := range map[node.Holder]bool{"": false, "0123456789abcdef0123456789abcdef:next:": false, node.Reserved("w"): true} {
		if holder.Reserves() != want {
			t.Errorf("Reserves of %q: only of what Reserved returns", string(holder))
		}
	}
}
