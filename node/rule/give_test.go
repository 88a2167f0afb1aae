package rule

import (
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

const (
	giveNow = 5 * time.Second
	wClient = "0123456789abcdef0123456789abcdef"
	first   = wClient + ":1:host/42"
	second  = wClient + ":2"
	reads   = wClient + ":03"
)

// given returns an entry that was given to the first waiter by a release that proposed 8, and the
// second one in its queue.
func given(t *testing.T) (*Entry, *testQueue) {
	t.Helper()
	e, q := &Entry{Holder: "h", Expires: time.Minute, Register: 3, Origin: 3, Token: 3}, &testQueue{}
	q.Insert(node.Place{Waiter: second, Stamp: 2})
	q.Insert(node.Place{Waiter: first, Stamp: 1})
	a, told := ServeShared(e, q, giveNow, node.Request{Op: node.Release, Holder: "h", Next: 8})
	want := Entry{Holder: node.Given(first, 8), Expires: giveNow + ReservationTTL, Origin: 8, Register: 8}
	if a.Status != node.Granted || *e != want || !slices.Equal(told, []string{wClient + ":1 8 5000000"}) ||
		q.ahead(second) != 0 {
		t.Fatalf("%+v, told %q, %+v, %+v", a, told, *e, q.Waiters)
	}
	return e, q
}

// The name is free, or its holder releases it, and two are in the queue.
func TestWhoIsGivenTheName(t *testing.T) {
	h := Entry{Holder: "h", Expires: time.Minute, Register: 3}
	r := node.Request{Op: node.Release, Holder: "h", Next: 8}
	with := func(r node.Request, change func(*node.Request)) node.Request { change(&r); return r }
	kept := func(w string) node.Holder { return node.Reserved(w) }
	shared := func() Entry {
		e := Entry{Register: 3}
		e.share(readers{epoch: 3, all: []reader{{holder: "h", expires: time.Minute, origin: 3}}})
		return e
	}()
	for name, c := range map[string]struct {
		e        Entry
		r        node.Request
		queue    []string // in order
		gone     []string
		holder   node.Holder
		register fence.Token
		told     []string
	}{
		"the first": {h, r, []string{first, second}, nil, node.Given(first, 8), 8, []string{wClient + ":1 8 5000000"}},
		"a register that is past the proposal": {Entry{Holder: "h", Expires: time.Minute, Register: 8}, r, []string{first},
			nil,
			node.Given(first, 9), 9, []string{wClient + ":1 9 5000000"}},
		"nobody waits": {h, r, nil, nil, "", 3, nil},
		"nothing is proposed": {h, with(r, func(r *node.Request) { r.Next = 0 }), []string{first}, nil, kept(first), 3,
			[]string{first}},
		"the lease is another's": {h, with(r, func(r *node.Request) { r.Holder = "i" }), []string{first}, nil, "h", 3, nil},
		"nobody has it":          {Entry{Register: 3}, r, []string{first}, nil, "", 3, nil},
		"it has expired":         {Entry{Holder: "h", Expires: giveNow, Register: 3}, r, []string{first}, nil, "h", 3, nil},
		"it was only reserved for who releases": {Entry{Holder: kept(second), Expires: time.Minute, Register: 3},
			with(r, func(r *node.Request) { r.Place.Waiter = second }), []string{first}, nil, node.Given(first, 8), 8,
			[]string{wClient + ":1 8 5000000"}},
		"the first is gone": {h, r, []string{first, second}, []string{first}, node.Given(second, 8), 8,
			[]string{wClient + ":2 8 5000000"}},
		"all are": {h, r, []string{first, second}, []string{first, second}, "", 3, nil},
		"who releases is first": {h, with(r, func(r *node.Request) { r.Place = node.Place{Waiter: first, Stamp: 1} }),
			[]string{first, second}, nil, "", 3, nil},
		"who releases leaves the queue": {h, with(r, func(r *node.Request) { r.Place.Waiter = first }),
			[]string{first, second}, nil,
			node.Given(second, 8), 8, []string{wClient + ":2 8 5000000"}},
		"it wants to share": {h, r, []string{reads, second}, nil, "", 3, []string{reads}},
		"the second wants to": {h, r, []string{second, reads}, nil, node.Given(second, 8), 8,
			[]string{wClient + ":2 8 5000000"}},
		"the last of those who share leaves": {shared, r, []string{first}, nil, node.Given(first, 8), 8,
			[]string{wClient + ":1 8 5000000"}},
		"by force": {h, with(r, func(r *node.Request) { r.Op = node.ForceRelease }), []string{first}, nil, kept(first), 4,
			[]string{first}},
	} {
		for _, out := range []bool{false, true} {
			e, q := c.e, &testQueue{gone: map[string]bool{}}
			if e.Out = out; out && c.r.Op == node.ForceRelease {
				continue
			}
			for i, w := range c.queue {
				q.Insert(node.Place{Waiter: w, Stamp: int64(i + 1)})
			}
			for _, w := range c.gone {
				q.gone[w] = true
			}
			_, told := ServeShared(&e, q, giveNow, c.r)
			holder, register, want := c.holder, c.register, c.told
			if out && len(want) > 0 && register > c.e.Register { // a node that is not admitted promises nothing
				for _, w := range c.queue {
					if holder.GivenTo(w) {
						holder, register, want = kept(w), c.e.Register, []string{w}
					}
				}
			}
			switch {
			case name == "it wants to share":
				if s, isShared := e.readers(giveNow); !isShared || s.of(kept(reads)) == nil || s.promised() {
					t.Errorf("%s: %q", name, string(e.Holder))
				}
			case e.Holder != holder:
				t.Errorf("%s, out %v: %q; want %q", name, out, string(e.Holder), string(holder))
			}
			if e.Register != register || !slices.Equal(told, want) {
				t.Errorf("%s, out %v: register %d, told %q; want %d, %q", name, out, e.Register, told, register, want)
			}
		}
	}
	// A node that does not know of it.
	e, q := h, &testQueue{}
	q.Insert(node.Place{Waiter: first, Stamp: 1})
	if _, told := Serve(&e, q, giveNow, r); told != first || e.Holder != kept(first) || e.Register != 3 {
		t.Errorf("by Serve: told %q, %+v", told, e)
	}
	e = h
	if a, told := ServeShared(&e, nil, giveNow, r); a.Status != node.Granted || told != nil || e.Leased(giveNow) ||
		e.Register != 3 {
		t.Errorf("without a queue: %+v, told %q, %+v", a, told, e)
	}
}

// What was given to the first waiter with 8 is a lease as any other, but to that waiter.
func TestWhatWasGiven(t *testing.T) {
	lease := node.Given(first, 8)
	place := func(w string, stamp int64) node.Place { return node.Place{Waiter: w, Stamp: stamp} }
	for name, c := range map[string]struct {
		r      node.Request
		after  time.Duration
		answer node.Status
		given  fence.Token // in the answer
		holder node.Holder // from then on
		told   []string
		in     []string // the queue
	}{
		"the waiter asks": {node.Request{Op: node.Acquire, Holder: "i", Place: place(first, 1)}, 0,
			node.Held, 8, lease, nil, []string{first, second}},
		"another one asks": {node.Request{Op: node.Acquire, Holder: "i", Place: place(second, 2)}, 0,
			node.Held, 0, lease, nil, []string{second}},
		"nobody's attempt": {node.Request{Op: node.Acquire, Holder: "i"}, 0, node.Held, 0, lease, nil,
			[]string{second}},
		"the waiter asks a ns before its end": {node.Request{Op: node.Acquire, Holder: "i", Place: place(first, 1)},
			ReservationTTL - 1, node.Held, 8, lease, nil, []string{first, second}},
		"and at its end": {node.Request{Op: node.Acquire, Holder: "i", Place: place(first, 1)},
			ReservationTTL, node.Granted, 0, "i", nil, []string{second}},
		"another holder extends": {node.Request{Op: node.Extend, Holder: "h"}, 0, node.Lost, 0, lease, nil,
			[]string{second}},
		"one that shares extends": {node.Request{Op: node.Extend, Holder: "h", Shared: true}, 0, node.Lost, 0,
			lease, nil, []string{second}},
		"another number's holder does": {node.Request{Op: node.Extend, Holder: node.Given(first, 7)}, 0, node.Lost, 0,
			lease, nil, []string{second}},
		"its holder extends": {node.Request{Op: node.Extend, Holder: lease}, 0, node.Granted, 0, lease, nil,
			[]string{second}},
		"another holder confirms": {node.Request{Op: node.Confirm, Holder: "h", Token: 9}, 0, node.Lost, 0, lease,
			nil, []string{second}},
		"its holder releases": {node.Request{Op: node.Release, Holder: lease, Place: place(first, 0)}, 0,
			node.Granted, 0, node.Reserved(second), []string{second}, nil},
		"its holder releases, and gives": {node.Request{Op: node.Release, Holder: lease, Place: place(first, 0),
			Next: 4}, 0, node.Granted, 0, node.Given(second, 9), []string{wClient + ":2 9 5000000"}, nil},
		"the waiter gives it back": {node.Request{Op: node.Release, Holder: lease, Place: place(first, 3)}, 0,
			node.Granted, 0, node.Reserved(second), []string{second}, []string{first}},
		"and is the first again": {node.Request{Op: node.Release, Holder: lease, Place: place(first, 1)}, 0,
			node.Granted, 0, "", nil, []string{first, second}},
		"it gives back another number": {node.Request{Op: node.Release, Holder: node.Given(first, 7),
			Place: place(first, 3)}, 0, node.Lost, 0, lease, nil, []string{second, first}},
		"a late release of its attempt": {node.Request{Op: node.Release, Holder: "i", Place: place(first, 3), Next: 9},
			0, node.Lost, 0, lease, nil, []string{second, first}},
		"the same when its wait is over": {node.Request{Op: node.Release, Holder: "i", Place: place(first, 0), Next: 9},
			0, node.Lost, 0, node.Given(second, 9), []string{wClient + ":2 9 5000000"}, nil},
		"no holder, and it goes on waiting": {node.Request{Op: node.Release, Place: place(first, 3)}, 0, node.Lost, 0,
			lease, nil, []string{second, first}},
		"it leaves, with a lock": {node.Request{Op: node.Release, Holder: node.Given(first, 0),
			Place: place(first, 0)}, 0, node.Lost, 0, lease, nil, []string{second}},
		"it gives up": {node.Request{Op: node.Release, Place: place(first, 0)}, 0, node.Lost, 0,
			node.Reserved(second), []string{second}, nil},
		"it gives up when it has expired": {node.Request{Op: node.Release, Place: place(first, 0)}, ReservationTTL,
			node.Lost, 0, lease, nil, []string{second}},
		"another one gives up": {node.Request{Op: node.Release, Place: place(second, 0)}, 0, node.Lost, 0,
			lease, nil, nil},
		"nobody gives up": {node.Request{Op: node.Release}, 0, node.Lost, 0, lease, nil,
			[]string{second}},
	} {
		e, q := given(t)
		c.r.TTL = time.Minute
		a, told := ServeShared(e, q, giveNow+c.after, c.r)
		var in []string
		for _, p := range q.Waiters {
			in = append(in, p.Waiter)
		}
		if a.Status != c.answer || a.Given != c.given || e.Holder != c.holder || !slices.Equal(told, c.told) ||
			!slices.Equal(in, c.in) {
			t.Errorf("%s: %v, given %d, %q, told %q, in the queue %q", name, a.Status, a.Given, string(e.Holder), told, in)
		}
		if c.r.Op == node.Extend && a.Status == node.Granted &&
			(a.Register != 8 || e.Origin != 8 || e.Expires != giveNow+time.Minute) {
			t.Errorf("%s: %+v, %+v", name, a, e)
		}
		if a.Status == node.Held && (a.Remaining != ReservationTTL-c.after || a.HeldBy != "host/42" ||
			a.Clock != giveNow+c.after) {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// A lease that its holder's late extend has begun is not given.
	e, q := given(t)
	ServeShared(e, q, giveNow, node.Request{Op: node.ForceRelease, Token: 20})
	e.Holder = ""
	ServeShared(e, q, giveNow, node.Request{Op: node.Extend, Holder: lease, TTL: time.Minute})
	if a, _ := ServeShared(e, q, giveNow,
		node.Request{Op: node.Acquire, Holder: "i", TTL: time.Minute, Place: place(first, 1)}); a.Status != node.Held ||
		a.Given != 0 {
		t.Errorf("%+v, of %+v", a, e)
	}
	for _, next := range []fence.Token{MaxProposal, MaxProposal + 1} {
		if err := CheckShared(node.Request{Op: node.Release, Holder: "h", Next: next}); (err != nil) != (next > MaxProposal) {
			t.Errorf("proposing %d: %v", next, err)
		}
	}
}
