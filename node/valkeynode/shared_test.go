package valkeynode_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// shared is a request of one who shares the name, for a minute, with no place in the queue.
func shared(op node.Op, holder string) node.Request {
	r := as(op, long(theName, holder))
	r.Shared = true
	return r
}

// As long as one of several holders is left, a client of another program that takes locks by SET NX
// is refused. It is granted the name after the last, and then those who want to share it are
// refused. The least permissions are enough.
func TestSharedNameExcludesOtherPrograms(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		allow(t, s, "fenlock:")
		refused := func() {
			t.Helper()
			if got := s.Do("SET", theKey, "another client's", "NX", "PX", "60000"); got != "(nil)" {
				t.Fatalf("another client has set the lease: %s", got)
			}
		}
		want(t, node.Granted)(n.Do(bounded(t), shared(node.Acquire, "one")))
		brief := shared(node.Acquire, "two")
		brief.TTL = 20 * time.Millisecond
		want(t, node.Granted)(n.Do(bounded(t), brief))
		refused()
		eventually(t, func() error { // one ends, and one stays
			if a, err := n.Do(bounded(t), as(node.Confirm, brief)); err != nil || a.Status != node.Lost {
				return fmt.Errorf("%+v, %v", a, err)
			}
			return nil
		})
		refused()
		want(t, node.Granted)(n.Do(bounded(t), shared(node.Acquire, "two")))
		want(t, node.Granted)(n.Do(bounded(t), as(node.Release, request(theName, "one"))))
		refused()
		extend := shared(node.Extend, "two")
		extend.TTL = time.Millisecond
		want(t, node.Granted)(n.Do(bounded(t), extend))
		eventually(t, func() error {
			if got := s.Do("SET", theKey, "another client's", "NX", "PX", "60000"); got != "OK" {
				return fmt.Errorf("SET: %s", got)
			}
			return nil
		})
		want(t, node.Held)(n.Do(bounded(t), shared(node.Acquire, "one")))
		want(t, node.Lost)(n.Do(bounded(t), shared(node.Extend, "one")))
		if got := s.Do("GET", theKey); got != "another client's" {
			t.Errorf("the other client's lease is %q", got)
		}
	})
}

// As many as rule.MaxReaders share a name. A client that comes then waits, and is notified when
// there is room; so are those who come after it.
func TestSharedNameIsBounded(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		events := subscribed(t, n, "a")
		for i := range rule.MaxReaders {
			want(t, node.Granted)(n.Do(bounded(t), shared(node.Acquire, fmt.Sprint(i))))
		}
		var waiters []node.Request
		for i := range 3 {
			r := shared(node.Acquire, fmt.Sprint("waiter ", i))
			r.Place = node.Place{Waiter: fmt.Sprintf("%s:0%d", strings.Repeat("a", 32), i), Stamp: int64(i + 1)}
			if a := want(t, node.Held)(n.Do(bounded(t), r)); a.Ahead != i || a.HeldBy == "" || a.Remaining == 0 {
				t.Errorf("%+v", a)
			}
			waiters = append(waiters, r)
		}
		lease, err := n.Inspect(bounded(t), theName)
		if err != nil || !lease.Shared || lease.Label == "" {
			t.Errorf("%+v, %v", lease, err)
		}
		listed := 0
		if err := n.List(bounded(t), "", func(l node.Lease) bool { listed++; return l.Shared }); err != nil || listed == 0 {
			t.Errorf("%d listed, %v", listed, err)
		}
		for i, r := range waiters {
			want(t, node.Granted)(n.Do(bounded(t), as(node.Release, request(theName, fmt.Sprint(i)))))
			if got := next(t, events); got != r.Place.Waiter {
				t.Errorf("%s was notified; want %s", got, r.Place.Waiter)
			}
		}
		if lines := strings.Count(s.Do("GET", theKey), "\n"); lines > rule.MaxReaders {
			t.Errorf("%d share the name, or may", lines)
		}
		if len(events) > 0 {
			t.Errorf("%s was notified as well", <-events)
		}
	})
}

// What only begins like the lease of several is an exclusive lease, whatever it means.
func TestWhatOnlyLooksShared(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		mine := string(request(theName, "one").Holder)
		for _, value := range []string{"shared:", "shared:7", "shared:7\n", "shared:x\n1 2 3 h", "shared:7 1",
			"shared:7\n9999999999999 7 " + mine, "shared:7\n9999999999999 7 0 " + mine + "\n\n",
			"shared:7\n9999999999999999 7 0 " + mine, "shared:7\n" + strings.Repeat("9", 400) + " 7 0 " + mine} {
			s.Do("SET", theKey, value, "PX", "60000")
			place := node.Place{Waiter: strings.Repeat("a", 32) + ":01"}
			release := as(node.Release, request(theName, "one"))
			release.Place = place
			want(t, node.Held)(n.Do(bounded(t), shared(node.Acquire, "one")))
			want(t, node.Held)(n.Do(bounded(t), as(node.Acquire, request(theName, "one"))))
			want(t, node.Lost)(n.Do(bounded(t), shared(node.Extend, "one")))
			want(t, node.Lost)(n.Do(bounded(t), as(node.Extend, request(theName, "one"))))
			want(t, node.Lost)(n.Do(bounded(t), as(node.Confirm, request(theName, "one"))))
			want(t, node.Lost)(n.Do(bounded(t), release))
			if got := s.Do("GET", theKey); got != value {
				t.Errorf("%q has become %q", value, got)
			}
			if l, err := n.Inspect(bounded(t), theName); err != nil || !l.Leased || l.Reserved {
				t.Errorf("%q: %+v, %v", value, l, err)
			}
		}
		// Numbers that were not promised are an error, as in the lease of one.
		s.Do("SET", theKey, "shared:99999999999999999999\n9999999999999 7 0 "+mine, "PX", "60000")
		if a, err := n.Do(bounded(t), shared(node.Acquire, "two")); err == nil {
			t.Errorf("%+v", a)
		}
		// 0 is never promised, however it is written.
		s.Do("SET", theKey, "shared:00\n9999999999999 7 0 "+mine, "PX", "60000")
		if a := want(t, node.Granted)(n.Do(bounded(t), shared(node.Acquire, "two"))); !a.Register.Valid() {
			t.Errorf("%+v", a)
		}
	})
}
