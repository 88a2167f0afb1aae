package nodetest

import (
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// An operator asks since when the lock is held, whether the leases of two nodes are one holder's,
// and which token it has. The node keeps what it was told last, through every extension, and
// forgets it with the lease.
func leaseShowsItsHolder(s *suite) {
	since := time.UnixMilli(1_700_000_000_123)
	r := request("a", "", 7)
	r.Holder = node.NewHolder([node.IDLength]byte([]byte(identity())), since, 0, "host/42")
	s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	shows := func(token, origin fence.Token) {
		s.Helper()
		l := s.inspect(s.other, "a")
		if !l.Leased || l.Reserved || l.Holder != r.Holder.Fingerprint() || !l.Since.Equal(since) || l.Label != "host/42" ||
			l.Token != token || l.Origin != origin {
			s.Fatalf("inspected %+v; want the token %d, the origin %d, and who has it since when", l, token, origin)
		}
		if listed := s.list()["a"]; listed.Holder != l.Holder || !listed.Since.Equal(since) || listed.Token != token ||
			listed.Origin != origin {
			s.Fatalf("listed as %+v, inspected %+v", listed, l)
		}
	}
	shows(0, 7)
	s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, 9)))
	shows(9, 7)
	s.want(node.Granted)(s.node.Extend(s.ctx, with(r, 0))) // tells nothing
	shows(9, 7)
	own := func(token fence.Token, ttl time.Duration) {
		s.Helper()
		x := lasting(with(r, 20), ttl)
		x.OwnToken = token
		s.want(node.Granted)(s.node.Extend(s.ctx, x))
	}
	own(11, long)
	shows(11, 7)
	own(11, short)
	s.outwait()
	own(12, long) // the lease is new
	shows(12, 20)
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	l := s.inspect(s.other, "a")
	l.Members = "" // which a node may have recorded of its group
	if l != (node.Lease{Name: "a", Register: 20}) {
		s.Fatalf("inspected %+v, which is free", l)
	}
	s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	shows(0, 21)

	other := s.takes("b", "host/42", 0)
	if l := s.inspect(s.node, "b"); l.Holder == r.Holder.Fingerprint() || l.Holder != other.Holder.Fingerprint() ||
		l.Since.IsZero() {
		s.Fatalf("inspected %+v, of another holder", l)
	}
}

// A prefix is text, not a pattern, and is the beginning of a name.
func listShowsNamesWithAPrefix(s *suite) {
	all := []string{"a", "a/", "a/1", "a/2", "a*", "a*b", "a?b", "a[1]", "A/1", "b", `a\`, "ä", "a\x00", "%", "%a", "_a",
		"aa"}
	for _, name := range all {
		s.takes(name, "", 0)
	}
	for _, prefix := range append([]string{"", "a/1/", "nobody"}, all...) {
		var got, want []string
		err := s.other.List(s.ctx, prefix, func(l node.Lease) bool {
			got = append(got, l.Name)
			return true
		})
		if err != nil {
			s.Fatalf("list %q: %v", prefix, err)
		}
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			s.Errorf("names with the prefix %q: %q; want %q", prefix, got, want)
		}
	}
}

// An operator asks who waits, in which order and for how long. To look sends no notification.
func waitingShowsTheQueue(q *queueSuite) {
	if !q.node.admin() {
		return
	}
	var clock time.Duration
	look := func(limit, all int, want ...waiter) {
		first, n, err := q.other.Waiting(q.ctx, q.name, limit)
		if err != nil || n != all || len(first) != len(want) {
			q.fail("%d of %d wait: %+v, %v; want %d of %d", len(first), n, first, err, len(want), all)
		}
		for i, w := range want {
			waited := max(clock-time.Duration(w.Stamp)*time.Microsecond, 0)
			if first[i].Label != node.WaiterLabel(w.Waiter) || first[i].ID != node.Holder(w.Waiter).Fingerprint() ||
				first[i].Waited < waited || first[i].Waited > waited+long {
				q.fail("the waiter %d is shown as %+v; want %q", i, first[i], w.Waiter)
			}
		}
	}
	look(10, 0)
	holder := q.holds()
	look(10, 0)
	clock = q.refused(waiter{}).Clock
	var waiters []waiter
	for i, label := range []string{":host/42", "", ":a:b c"} {
		w := q.waiter(q.near, 0)
		w.Stamp = max(clock.Microseconds()-int64(3-i)*time.Second.Microseconds(), int64(1+i))
		w.Waiter += label
		waiters = append(waiters, w)
	}
	q.queued(waiters[2], waiters[0], waiters[1])
	look(10, 3, waiters...)
	look(2, 3, waiters[:2]...)
	if _, all, err := q.other.Waiting(q.ctx, q.name+" ", 10); err != nil || all != 0 {
		q.fail("%d wait for another name, %v", all, err)
	}
	q.releases(holder, waiters[0])
	look(10, 2, waiters[1:]...)
	for _, w := range waiters[1:] {
		q.leaves(w)
	}
	look(10, 0)
	q.leaves(waiters[0])
}

// A label is part of a waiter; a waiter that is notified need not be told its own.
func labelledWaiterIsNotified(q *queueSuite) {
	holder, w1, w2 := q.holds(), q.waiter(q.far, 10), q.waiter(q.near, 20)
	w1.Waiter += ":" + strings.Repeat("ü ", node.MaxWaiterLabel/3)
	w2.Waiter += ":1:2"
	q.queued(w1, w2)
	q.ahead(w2, 1)
	q.releases(holder, w1)
	q.refused(w2)
	q.releases(q.granted(w1), w2)
	q.leaves(w2)
	q.free()
}
