package rule

import (
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
)

// binds is do for a holder whose leases are bound.
func binds(t *testing.T, s *Store, r node.Request) {
	t.Helper()
	o := s.Begin(r.Name, 0, nil)
	if a, _ := ServeShared(&o.Entry, o, 0, r); a.Status != node.Granted {
		t.Fatalf("%+v to %v of %s", a, r.Op, r.Holder.Label())
	}
	o.Bind(r.Holder, 0)
	o.Commit()
}

// A bound lease ends when no process of its holder lives, and never by time, however late it is.
func TestBoundLease(t *testing.T) {
	const late = 50 * 365 * 24 * time.Hour
	var s Store
	binds(t, &s, acquires("a", "h", ""))
	if a, _ := do(&s, late, acquires("a", "i", "")); a.Status != node.Held || a.Remaining != 0 {
		t.Fatalf("%+v", a)
	}
	if l := s.Lease("a", late); !l.Leased || !l.Bound || l.Remaining != 0 {
		t.Errorf("%+v", l)
	}
	o := s.Begin("a", late, nil)
	o.Ended(late, func(h node.Holder) bool { return h == "h" })
	if !o.Leased(late) {
		t.Fatal("it ended while its holder lives")
	}
	o.Ended(late, func(node.Holder) bool { return false })
	if a, _ := Serve(&o.Entry, o, late, acquires("a", "i", "")); a.Status != node.Granted || a.Register != 2 {
		t.Errorf("%+v", a)
	}
	o.Ended(late, func(node.Holder) bool { return false })
	if !o.Leased(late) {
		t.Error("a lease by time ended with a process")
	}
}

// Of those who share a name each has its own end.
func TestBoundReaders(t *testing.T) {
	var s Store
	shares := func(h node.Holder) node.Request {
		r := acquires("a", h, "")
		r.Shared = true
		return r
	}
	binds(t, &s, shares("h"))
	binds(t, &s, shares("i"))
	o := s.Begin("a", 0, nil)
	if a, _ := ServeShared(&o.Entry, o, 0, shares("by time")); a.Status != node.Granted {
		t.Fatalf("%+v", a)
	}
	if bound := o.BoundTo(0); !slices.Equal(bound, []node.Holder{"h", "i"}) {
		t.Fatalf("bound to %q", bound)
	}
	o.Ended(0, func(h node.Holder) bool { return h == "i" })
	if bound := o.BoundTo(0); !slices.Equal(bound, []node.Holder{"i"}) {
		t.Errorf("bound to %q after the end of h", bound)
	}
	o.Ended(0, func(node.Holder) bool { return false })
	if bound := o.BoundTo(0); bound != nil || !o.Leased(time.Minute-1) || o.Leased(time.Minute) {
		t.Errorf("bound to %q after the end of both, until %v", bound, o.Entry.Expires)
	}
}
