package shell

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// A place without a stamp would be at the front of every queue: only a release,
// which takes the waiter out, may have one.
func TestPlaceThatARequestCarries(t *testing.T) {
	place := node.Place{Waiter: "0123456789abcdef0123456789abcdef:1", Stamp: 7}
	gone := node.Place{Waiter: place.Waiter}
	waiting, over := &waiter{at: place, waiting: true}, &waiter{at: place}
	for _, c := range []struct {
		w    *waiter
		op   core.Op
		want node.Place
	}{
		{waiting, core.Acquire, place},
		{waiting, core.Release, place},
		{waiting, core.Confirm, node.Place{}},
		{over, core.Acquire, place},
		{over, core.Release, gone},
		{over, core.Extend, node.Place{}},
		{&waiter{waiting: true}, core.Acquire, node.Place{}}, // not in the queue yet
		{&waiter{}, core.Release, node.Place{}},
	} {
		if got := c.w.place(c.op); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.op, got, c.want)
		}
	}
}

// A node refuses with what is on its way back until it has heard of that. Then, and once more at
// most, it is asked again: who gives back is not notified.
func TestWhoGivesBackAsksAgain(t *testing.T) {
	const second = time.Second
	refuses := node.Answer{Clock: second, Given: 5, Remaining: second}
	var hurries hurriedBy
	w := &waiter{waiting: true, of: &hurries, retry: &core.Retry{}}
	*w.retry.(*core.Retry) = core.NewRetry(1)
	// next is an attempt that is refused, and reports whether the next one is due at once.
	next := func() bool {
		w.retry.Begin()
		w.refused(0, 0, 0, refuses)
		w.retry.Refused(0, []core.Refusal{{Status: core.Held, Remaining: second}}, false, 0.5)
		return w.retry.Due() == 0
	}
	if !next() {
		t.Error("does not hurry for what it was given")
	}
	if number := w.back(0); number != 5 {
		t.Errorf("gives %d back", number)
	}
	for range 2 {
		if next() {
			t.Error("asks again what has not heard that it is given back")
		}
	}
	w.returned(0, 5, 0)
	if w.retry.Due() != 0 || hurries != 1 {
		t.Error("does not ask again when the node has heard of it")
	}
	if next() {
		t.Error("asks again and again a node that has not heard of it")
	}

	refuses.Given = 6
	if !next() || w.back(0) != 6 || next() {
		t.Error("the next one")
	}
	w.returned(0, 5, 0)
	if next() || hurries != 1 {
		t.Error("the answer to an earlier release counts for a later one")
	}
	w.returned(0, 6, 0)
	if hurries != 2 {
		t.Error("does not ask again when the node has heard of the later one")
	}

	// The answer to the release comes first.
	refuses.Given = 7
	if !next() || w.back(0) != 7 {
		t.Error("the third one")
	}
	w.returned(0, 7, 0)
	if hurries != 2 {
		t.Error("asks a node that has not refused")
	}
	for _, want := range []bool{true, false} {
		if next() != want {
			t.Errorf("a refusal of before the answer: asks again: %v", !want)
		}
	}
}

type hurriedBy int

func (h *hurriedBy) hurried() { *h++ }

// A client whose lock was given leaves the queues, and returns what else it was given. It does not
// return the lock, as long as that is held, here or in the process that it was exported to.
func TestPartingKeepsTheLock(t *testing.T) {
	const client = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name         string
		taken        bool
		ended, goes  bool
		keeps, place bool
	}{
		{name: "nothing was given", place: true},
		{name: "held", taken: true, keeps: true},
		{name: "exported", taken: true, ended: true, goes: true, keeps: true},
		{name: "released", taken: true, ended: true, place: true},
	} {
		w := &waiter{name: "orders", at: node.Place{Waiter: client + ":7:me", Stamp: 5}}
		if c.taken {
			w.gifts().Take(9)
		}
		if c.ended {
			w.part(c.goes)
		}
		want := node.Holder("")
		if c.keeps {
			want = node.Given(w.at.Waiter, 0)
		}
		if r := w.parting(); r.Holder != want || r.Place != (node.Place{Waiter: w.at.Waiter}) {
			t.Errorf("%s: leaves as %q from %+v", c.name, string(r.Holder), r.Place)
		}
		if place := w.place(core.Release); place.Waiter != "" != c.place {
			t.Errorf("%s: a release has the place %+v", c.name, place)
		}
	}
}
