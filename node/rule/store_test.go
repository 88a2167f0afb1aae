package rule

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// do carries out a request on a store all of whose waiters can be told.
func do(s *Store, now time.Duration, r node.Request) (node.Answer, string) {
	o := s.Begin(r.Name, now, func(string) bool { return true })
	a, notify := Serve(&o.Entry, o, now, r)
	o.Commit()
	return a, notify
}

func acquires(name string, holder node.Holder, waiter string) node.Request {
	return node.Request{Op: node.Acquire, Name: name, Holder: holder, TTL: time.Minute,
		Place: node.Place{Waiter: waiter, Stamp: 1}}
}

func TestStoreKeepsNamesApart(t *testing.T) {
	var s Store
	same, other := []string{"a"}, ""
	for i := 0; len(same) < 2 || other == ""; i++ {
		if name := fmt.Sprint(i); node.Stripe(name) == node.Stripe("a") {
			same = append(same, name)
		} else {
			other = name
		}
	}
	for i, step := range []struct {
		name string
		want fence.Token
	}{{same[0], 1}, {same[1], 2}, {other, 1}} {
		if a, _ := do(&s, 0, acquires(step.name, "h", "")); a.Register != step.want {
			t.Errorf("step %d: %+v; want register %d", i, a, step.want)
		}
	}
	do(&s, 0, acquires("a", "i", "w"))
	if _, notify := do(&s, 0, node.Request{Op: node.Release, Name: same[1], Holder: "h"}); notify != "" {
		t.Errorf("%q was notified, who waits for another name", notify)
	}
	if _, notify := do(&s, 0, node.Request{Op: node.Release, Name: "a", Holder: "h"}); notify != "w" {
		t.Errorf("%q was notified", notify)
	}
	want := []node.Lease{
		{Name: other, Leased: true, Holder: node.Holder("h").Fingerprint(), Origin: 1, Remaining: time.Minute, Register: 1},
		{Name: "a", Leased: true, Label: node.NextInQueue, Holder: node.Reserved("w").Fingerprint(), Reserved: true,
			Remaining: ReservationTTL, Register: 2},
	}
	if all := s.All("", 0); !reflect.DeepEqual(all, want) {
		t.Errorf("%+v; want %+v", all, want)
	}
	if l := s.Lease(same[1], 0); l != (node.Lease{Name: same[1], Register: 2}) {
		t.Errorf("%+v", l)
	}
}

// A queue is forgotten one nanosecond after it is remembered, and what is empty or has
// ended is not kept.
func TestStoreForgets(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		ahead int
	}{{QueueExpiry - 1, 1}, {QueueExpiry, 0}} {
		var s Store
		do(&s, 0, acquires("a", "h", ""))
		do(&s, 0, acquires("a", "i", "w"))
		if a, _ := do(&s, c.after, acquires("a", "j", "")); a.Ahead != c.ahead {
			t.Errorf("after %v: %+v; want %d ahead", c.after, a, c.ahead)
		}
		do(&s, time.Minute, node.Request{Op: node.Release, Name: "a", Place: node.Place{Waiter: "w"}})
		if len(s.Leases) != 0 || len(s.Queues) != 0 || len(s.Registers) != 1 {
			t.Errorf("left: %+v", s)
		}
	}
}

func TestStoreOut(t *testing.T) {
	s := Store{Out: true}
	if a, _ := do(&s, 0, acquires("a", "h", "w")); a.Status != node.Rejoining || len(s.Leases) != 0 || len(s.Queues) != 0 {
		t.Errorf("%+v, %+v", a, s)
	}
	stripe := node.Stripe("a")
	s.Raise(map[int]fence.Token{stripe: 7, 1: 5})
	s.Raise(map[int]fence.Token{stripe: 6})
	s.Out = false
	if a, _ := do(&s, 0, acquires("a", "h", "")); a.Status != node.Granted || a.Register != 8 || s.Registers[1] != 5 {
		t.Errorf("%+v, %+v", a, s)
	}
}

// The clock of a machine begins anew with each boot: what ends by it ends with the boot.
func TestStoreInAnotherBoot(t *testing.T) {
	var s Store
	acquire := func(now time.Duration, holder node.Holder) node.Answer {
		o := s.Begin("name", now, nil)
		a, _ := Serve(&o.Entry, o, now, node.Request{Op: node.Acquire, Name: "name", Holder: holder, TTL: time.Minute})
		o.Commit()
		return a
	}
	s.InBoot("one")
	first := acquire(1000*time.Hour, "A")
	s.InBoot("one")
	if a := acquire(1000*time.Hour, "B"); first.Status != node.Granted || a.Status != node.Held {
		t.Fatalf("in one boot: %+v, then %+v", first, a)
	}
	s.InBoot("two")
	if a := acquire(time.Second, "B"); a.Status != node.Granted || a.Register <= first.Register {
		t.Errorf("in another boot: %+v, after %+v", a, first)
	}
}
