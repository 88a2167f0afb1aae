package cas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
)

var holders int

func request(op node.Op, name string) node.Request {
	holders++
	return node.Request{Op: op, Name: name, Holder: node.Holder(fmt.Sprintf("%032d:holder", holders)), TTL: time.Minute}
}

func as(op node.Op, r node.Request) node.Request {
	r.Op = op
	return r
}

func want(t testing.TB, status node.Status) func(node.Answer, error) node.Answer {
	return func(a node.Answer, err error) node.Answer {
		t.Helper()
		if err != nil || a.Status != status {
			t.Fatalf("%+v, %v; want %v", a, err, status)
		}
		return a
	}
}

func take(t testing.TB, n node.Node, name string) node.Request {
	t.Helper()
	r := request(node.Acquire, name)
	r.Token = want(t, node.Granted)(n.Do(t.Context(), r)).Register
	return r
}

// sibling returns another name of the same stripe.
func sibling(name string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprint(name, i); node.Stripe(other) == node.Stripe(name) {
			return other
		}
	}
}

// A release of what this process has saved last is one request. A promise reads the store's clock
// and its mark.
func TestReleaseIsOneSave(t *testing.T) {
	m := newMemory(new(fakeClock).Now, false)
	n := join(t, openPolled(m))
	defer n.Close()
	r := take(t, n, "a")
	for _, c := range []struct {
		looks int
		r     node.Request
	}{{1, as(node.Extend, r)}, {1, as(node.Confirm, r)}, {0, as(node.Release, r)},
		{1, request(node.Acquire, sibling("a"))}} {
		looks, puts := m.looks, m.puts
		want(t, node.Granted)(n.Do(t.Context(), c.r))
		if m.looks-looks != c.looks || m.puts-puts != 1 {
			t.Errorf("%v: the store was looked at %d times, and written to %d times; want %d, 1", c.r.Op, m.looks-looks,
				m.puts-puts, c.looks)
		}
	}
}

// What this process remembers never decides alone: not that a name is free, and not that it is
// taken.
func TestRememberedRecordIsNotBelieved(t *testing.T) {
	clock := new(fakeClock)
	m := newMemory(clock.Now, true)
	n, other := join(t, openPolled(m)), join(t, openPolled(m))
	defer n.Close()
	defer other.Close()
	r := take(t, n, "a")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
	held := take(t, other, "a")
	want(t, node.Held)(n.Do(t.Context(), request(node.Acquire, "a"))) // free, as n remembers
	b := take(t, n, sibling("a"))
	want(t, node.Granted)(other.Do(t.Context(), as(node.Release, held)))
	if got := take(t, n, "a").Token; got <= b.Token { // taken, as n remembers
		t.Errorf("token %d after %d", got, b.Token)
	}
}

// A write whose answer was lost may still be on its way. The release that follows is written, also
// where there is nothing to release: so the late write fails, and leaves no lease behind.
func TestReleaseOvertakesAWrite(t *testing.T) {
	for _, exact := range []bool{true, false} {
		m := newMemory(new(fakeClock).Now, exact)
		n, other := join(t, openPolled(m)), join(t, openPolled(m))
		defer n.Close()
		defer other.Close()
		take(t, n, sibling("a"))
		m.faults = faults{rand: seeded(1), delayed: 100}
		r := request(node.Acquire, "a")
		if a, err := n.Do(t.Context(), r); !errors.Is(err, errFault) || errors.Is(err, node.ErrNotSent) ||
			a != (node.Answer{}) || !strings.Contains(err.Error(), "memory m: acquire") {
			t.Fatalf("%+v, %v; want that it is unknown", a, err)
		}
		late := m.late
		m.faults, m.late = faults{}, nil
		want(t, node.Lost)(n.Do(t.Context(), as(node.Release, r)))
		for _, write := range late {
			m.mu.Lock()
			write()
			m.mu.Unlock()
		}
		want(t, node.Granted)(other.Do(t.Context(), request(node.Acquire, "a")))
	}
}

// What has expired is not kept.
func TestExpiredLeasesAreForgotten(t *testing.T) {
	clock := new(fakeClock)
	m := newMemory(clock.Now, false)
	n := join(t, openPolled(m))
	defer n.Close()
	take(t, n, sibling("a"))
	clock.Advance(time.Minute)
	take(t, n, "a")
	l, err := n.store.Load(t.Context(), node.Stripe("a"))
	if leases, bad := decodeLeases(l.Leases); err != nil || bad != nil || len(leases) != 1 {
		t.Errorf("%v, %v, %v; want one lease", leases, err, bad)
	}
}

// Where the mark alone is lost, registers stay, and leases do not. A client that has read an older
// mark does nothing to a record of a later one.
func TestLeasesOfAnEarlierMarkDoNotCount(t *testing.T) {
	for _, exact := range []bool{true, false} {
		m := newMemory(new(fakeClock).Now, exact)
		n := join(t, openPolled(m))
		defer n.Close()
		r := request(node.Acquire, "a")
		r.Token = 70
		want(t, node.Granted)(n.Do(t.Context(), r))
		k := n.store.(marked)
		old := m.values[MarkKey]
		facts := func() admit.Facts {
			f, err := k.Facts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		if done, err := k.Note(t.Context(), facts()); !done || err != nil {
			t.Fatal(done, err)
		}
		if f := facts(); f.Votes || f.Marked || !f.Counted || !f.Recorded || f.Out > time.Minute {
			t.Errorf("after the note: %+v", f)
		}
		if a := want(t, node.Rejoining)(n.Do(t.Context(), as(node.Extend, r))); a.Absence.Wait <= 0 {
			t.Errorf("%+v; want that it waits", a)
		}
		if err := k.Raise(t.Context(), facts(), map[int]fence.Token{node.Stripe("a"): 60, node.Stripe("b"): 90}); err != nil {
			t.Fatal(err)
		}
		if done, err := k.Mark(t.Context(), facts(), admit.Terms{}, nil); !done || err != nil {
			t.Fatal(done, err)
		}
		if l, err := n.Inspect(t.Context(), "a"); err != nil || l.Leased {
			t.Errorf("%+v, %v; want that it is free", l, err)
		}
		for name, register := range map[string]fence.Token{"a": 71, "b": 91} {
			if a := want(t, node.Granted)(n.Do(t.Context(), request(node.Acquire, name))); a.Register != register {
				t.Errorf("%s: granted %d; want %d", name, a.Register, register)
			}
		}
		at, _ := m.Look(t.Context())
		was, err := parseMark(old)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := k.loaded(m.values[StripeKey(node.Stripe("a"))], at, was); err == nil {
			t.Errorf("under the old mark: %+v", l)
		}
		if l, err := k.loaded(m.values[StripeKey(node.Stripe("a"))], at, mark{}); err != nil || l.Votes ||
			len(l.Leases) != 0 || l.Register != 71 {
			t.Errorf("without a mark: %+v, %v", l, err)
		}
	}
}

// What must not be promised is refused before anything is written, with what to do about it.
func TestRefused(t *testing.T) {
	m := newMemory(new(fakeClock).Now, true)
	n := join(t, openPolled(m))
	defer n.Close()
	held := take(t, n, "a")
	puts := m.puts
	for says, r := range map[string]node.Request{
		"longest lease is 1h0m0s": {Op: node.Acquire, Name: "b", Holder: "h", TTL: 2 * time.Hour},
		// on what is remembered
		"one, of 3h0m0s":   {Op: node.Acquire, Name: sibling("a"), Holder: "h", TTL: 3 * time.Hour},
		"invalid argument": {Op: node.Acquire, Name: "b", TTL: time.Minute},
	} {
		a, err := n.Do(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), says) || a != (node.Answer{}) {
			t.Errorf("%+v, %v; want %q", a, err, says)
		}
	}
	n.config.MaxRecord = 10
	if _, err := n.Do(t.Context(), request(node.Acquire, sibling("a"))); !errors.Is(err, node.ErrNotSent) ||
		!strings.Contains(err.Error(), "at most 10 are kept") {
		t.Errorf("a record that is too large: %v", err)
	}
	stranger := openPolled(m)
	defer stranger.Close()
	if err := stranger.Join(node.Group{Nodes: []node.Node{stranger}, MaxTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Do(t.Context(), request(node.Acquire, "b")); !errors.Is(err, node.ErrMisconfigured) ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("of another group: %v", err)
	}
	if _, err := stranger.Inspect(t.Context(), "a"); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("of another group: %v", err)
	}
	key := StripeKey(node.Stripe("a"))
	m.values[key] = Value{Data: []byte("{}"), Version: m.values[key].Version + 1}
	if _, err := n.Do(t.Context(), as(node.Extend, held)); !errors.Is(err, node.ErrMisconfigured) ||
		!strings.Contains(err.Error(), "is lost") {
		t.Errorf("written by something else: %v", err)
	}
	if m.puts != puts {
		t.Errorf("%d writes", m.puts-puts)
	}
}

// A listener whose Attend has failed is told that it may have missed something, once it listens
// again.
func TestAttendedAgain(t *testing.T) {
	m := newMemory(wall, false)
	n := &queued{}
	broken := make(chan struct{}, 1)
	n.Queued = NewQueued(n, breaking{teller{Marked(m), m}, broken}, Config{Kind: "memory", Name: "m"})
	defer n.Close()
	join(t, n)
	heard := make(chan string, 10)
	if err := n.Listen(t.Context(), engine.ClientOf(waiter), func(waiter string) { heard <- waiter }); err != nil {
		t.Fatal(err)
	}
	broken <- struct{}{}
	if got := <-heard; got != "" {
		t.Errorf("heard %q; want that something may have been missed", got)
	}
}

type breaking struct {
	teller
	broken chan struct{}
}

func (b breaking) Attend(ctx context.Context, h *Hearing) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-b.broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	return b.teller.Attend(ctx, h)
}
