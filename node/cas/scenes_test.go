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
	"github.com/fenlock/fenlock/node/rule"
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

// On a store that compares the mark, an operation is one request once the record is known; on another one only a
// release is. A reading of the clock that is old is not used for a promise.
func TestUsualOperationIsOneSave(t *testing.T) {
	for _, exact := range []bool{true, false} {
		clock := new(fakeClock)
		m := newMemory(clock.Now, exact)
		n := join(t, openPolled(m))
		defer n.Close()
		r := take(t, n, "a")
		count := func(what string, looks int, r node.Request) {
			t.Helper()
			hadLooks, hadPuts := m.looks, m.puts
			want(t, node.Granted)(n.Do(t.Context(), r))
			if m.looks-hadLooks != looks || m.puts-hadPuts != 1 {
				t.Errorf("%s, exact %v: the store was looked at %d times, and written to %d times; want %d, 1", what, exact, m.looks-hadLooks, m.puts-hadPuts, looks)
			}
		}
		promise := 1
		if exact {
			promise = 0
		}
		count("extend", promise, as(node.Extend, r))
		count("confirm", promise, as(node.Confirm, r))
		count("release", 0, as(node.Release, r))
		count("acquire", promise, request(node.Acquire, sibling("a")))
		clock.Advance(50 * MostLate)
		count("after a while", 1, request(node.Acquire, "a"))
	}
}

// What this process remembers never decides alone: not that a name is free, and not that it is taken.
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

// The estimate of a clock never ends another's lease early, nor an own one.
func TestEstimatedClock(t *testing.T) {
	r := remembered{Loaded: Loaded{Clock: time.Hour}, sent: 10 * time.Second, got: 11 * time.Second}
	for at, want := range map[time.Duration][2]time.Duration{
		11 * time.Second:  {time.Hour, time.Hour + time.Second + 10*time.Millisecond},
		20 * time.Second:  {time.Hour + 9*time.Second - 90*time.Millisecond, time.Hour + 10*time.Second + 100*time.Millisecond},
		111 * time.Second: {time.Hour + 99*time.Second, time.Hour + 102*time.Second + 10*time.Millisecond},
		5 * time.Second:   {time.Hour, time.Hour}, // a clock that goes back
	} {
		if earliest, latest := r.now(at); earliest != want[0] || latest != want[1] {
			t.Errorf("at %v: %v, %v; want %v", at, earliest, latest, want)
		}
	}
}

// A lease lasts for its TTL, and those of others do not end early, also on a clock that is not read, and that goes
// faster or slower by a hundredth than this machine's.
func TestLeasesOnAnEstimatedClock(t *testing.T) {
	for _, percent := range []time.Duration{99, 101} {
		store, here := new(fakeClock), new(fakeClock)
		m := newMemory(store.Now, true)
		n, other := join(t, openPolled(m)), join(t, openPolled(m))
		defer n.Close()
		defer other.Close()
		n.now = here.Now
		short := request(node.Acquire, sibling("a"))
		short.TTL = 9 * time.Second
		want(t, node.Granted)(other.Do(t.Context(), short))
		take(t, n, "a")
		here.Advance(9 * time.Second)
		store.Advance(9 * time.Second * percent / 100)
		looks, own := m.looks, request(node.Acquire, sibling(sibling("a")))
		own.TTL = time.Second
		want(t, node.Granted)(n.Do(t.Context(), own))
		if m.looks != looks {
			t.Fatal("the clock was read")
		}
		if l, err := other.Inspect(t.Context(), own.Name); err != nil || l.Remaining < own.TTL-time.Millisecond {
			t.Errorf("%d%%: %v remain of %v, %v", percent, l.Remaining, own.TTL, err)
		}
		l, err := n.store.Load(t.Context(), node.Stripe("a"))
		leases, bad := decodeLeases(l.Leases)
		if _, there := leases[short.Name]; err != nil || bad != nil || !there && percent < 100 {
			t.Errorf("%d%%: the lease of 9 s is there: %v, %v, %v", percent, there, err, bad)
		}
	}
}

// What is given by an estimate of the clock lasts as long as the waiter believes: a second from what it is told.
func TestGivenOnAnEstimatedClock(t *testing.T) {
	const now, late = time.Hour, 150 * time.Millisecond
	stripe := node.Stripe("a")
	all := func(string) bool { return true }
	d, err := Loaded{Votes: true}.decide(stripe, node.Request{Op: node.Acquire, Name: "a", Holder: "h", TTL: time.Minute}, now, 0, all)
	if err != nil {
		t.Fatal(err)
	}
	wait := node.Request{Op: node.Acquire, Name: "a", Holder: "i", TTL: time.Minute, Place: node.Place{Waiter: waiter, Stamp: 1}}
	if d, err = (Loaded{Votes: true, Record: d.after}).decide(stripe, wait, now, 0, all); err != nil || !d.write {
		t.Fatal(d, err)
	}
	d, err = Loaded{Votes: true, Record: d.after}.decide(stripe, node.Request{Op: node.Release, Name: "a", Holder: "h", Next: 7}, now, late, all)
	leases, bad := decodeLeases(d.after.Leases)
	if err != nil || bad != nil || len(d.after.Fresh) != 1 {
		t.Fatalf("%+v, %v, %v", d, err, bad)
	}
	n, _ := node.ParseNotice(d.after.Fresh[0])
	if n.Number != 7 || n.Clock != now+late || leases["a"].Expires != n.Clock+rule.ReservationTTL || leases["a"].Holder != node.Given(waiter, 7) {
		t.Errorf("told %+v, and leased %+v", n, leases["a"])
	}
}

// This machine's clock has stood still for a minute, as that of a virtual machine that was paused may. The store notices.
func TestPausedMachine(t *testing.T) {
	store, here := new(fakeClock), new(fakeClock)
	m := newMemory(store.Now, true)
	n := join(t, openPolled(m))
	defer n.Close()
	n.now = here.Now
	take(t, n, "a")
	store.Advance(time.Minute)
	r := request(node.Acquire, sibling("a"))
	r.TTL = time.Second
	want(t, node.Granted)(n.Do(t.Context(), r))
	if l, err := n.Inspect(t.Context(), r.Name); err != nil || l.Remaining < r.TTL-time.Millisecond {
		t.Errorf("%+v, %v: the lease has ended when it begins", l, err)
	}
}

// A write whose answer was lost may still be on its way. The release that follows is written, also where there
// is nothing to release: so the late write fails, and leaves no lease behind.
func TestReleaseOvertakesAWrite(t *testing.T) {
	for _, exact := range []bool{true, false} {
		m := newMemory(new(fakeClock).Now, exact)
		n, other := join(t, openPolled(m)), join(t, openPolled(m))
		defer n.Close()
		defer other.Close()
		take(t, n, sibling("a"))
		m.faults = faults{rand: seeded(1), delayed: 100}
		r := request(node.Acquire, "a")
		if a, err := n.Do(t.Context(), r); !errors.Is(err, errFault) || errors.Is(err, node.ErrNotSent) || a != (node.Answer{}) || !strings.Contains(err.Error(), "memory m: acquire") {
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

// Where the mark alone is lost, registers stay, and leases do not. A client that has read an older mark does nothing
// to a record of a later one.
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
		if l, err := k.loaded(m.values[StripeKey(node.Stripe("a"))], at, mark{}); err != nil || l.Votes || len(l.Leases) != 0 || l.Register != 71 {
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
		"one, of 3h0m0s":          {Op: node.Acquire, Name: sibling("a"), Holder: "h", TTL: 3 * time.Hour}, // on what is remembered
		"invalid argument":        {Op: node.Acquire, Name: "b", TTL: time.Minute},
	} {
		a, err := n.Do(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), says) || a != (node.Answer{}) {
			t.Errorf("%+v, %v; want %q", a, err, says)
		}
	}
	n.config.MaxRecord = 10
	if _, err := n.Do(t.Context(), request(node.Acquire, sibling("a"))); !errors.Is(err, node.ErrNotSent) || !strings.Contains(err.Error(), "at most 10 are kept") {
		t.Errorf("a record that is too large: %v", err)
	}
	stranger := openPolled(m)
	defer stranger.Close()
	if err := stranger.Join(node.Group{Nodes: []node.Node{stranger}, MaxTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Do(t.Context(), request(node.Acquire, "b")); !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) {
		t.Errorf("of another group: %v", err)
	}
	if _, err := stranger.Inspect(t.Context(), "a"); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("of another group: %v", err)
	}
	key := StripeKey(node.Stripe("a"))
	m.values[key] = Value{Data: []byte("{}"), Version: m.values[key].Version + 1}
	if _, err := n.Do(t.Context(), as(node.Extend, held)); !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("written by something else: %v", err)
	}
	if m.puts != puts {
		t.Errorf("%d writes", m.puts-puts)
	}
}

// A listener whose Attend has failed is told that it may have missed something, once it listens again.
func TestAttendedAgain(t *testing.T) {
	m := newMemory(wall, false)
	n := &queued{}
	broken := make(chan struct{}, 1)
	n.Queued = NewQueued(n, breaking{teller{Marked(m), m}, broken}, Config{Kind: "memory", Name: "m"})
	defer n.Close()
	join(t, n)
	heard := make(chan string, 10)
	if err := n.Listen(t.Context(), clientOf(waiter), func(waiter string) { heard <- waiter }); err != nil {
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
