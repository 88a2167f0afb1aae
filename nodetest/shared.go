package nodetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
)

// The rules of nodes that are a node.Sharer.

var sharedCases = []func(*suite){
	sharedNameIsGrantedToMany, sharedEpochEndsAtAFloor, sharedLeasesEndOneByOne, sharedNameRefusesWhoWantsItAlone,
	extendSharesTheName, extendSharesItAgain, confirmMakesNoEpoch, slotsAreAgreedOn, sharesAreShown,
}

var sharedQueueCases = []func(*queueSuite){
	readersAreNotifiedTogether, waitingForTheNameAloneStopsReaders, readerIsPassedOver,
}

func shared(r node.Request) node.Request {
	r.Shared = true
	return r
}

// Those who come get what was promised to the first, or confirmed since, and move no register.
func sharedNameIsGrantedToMany(s *suite) {
	one, two, three := shared(request("a", "one", 7)), shared(request("a", "two", 9)), shared(request("a", "three", 0))
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, one)), 7)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, two)), 7)
	s.want(node.Held)(s.node.Acquire(s.ctx, one)) // once is enough
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(two, 20))), 20)
	s.register(s.want(node.Outrun)(s.node.Confirm(s.ctx, with(one, 19))), 20)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, three)), 20)
	s.register(s.want(node.Granted)(s.other.Extend(s.ctx, with(one, 0))), 7)
	s.register(s.want(node.Granted)(s.other.Extend(s.ctx, with(three, 0))), 20)
	for _, r := range []node.Request{two, one, three} {
		s.want(node.Held)(s.other.Acquire(s.ctx, request("a", "alone", 0)))
		s.want(node.Granted)(s.node.Release(s.ctx, r))
		s.want(node.Lost)(s.other.Release(s.ctx, r))
	}
	// What was promised to those who have gone is not promised again.
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, shared(request("a", "four", 0)))), 21)
}

// An extension with a floor past what those were promised who share the name: an acquire that comes
// late gets a number past the floor. By a smaller one, a lock could be adopted whose leases had all
// ended since it was exported.
func sharedEpochEndsAtAFloor(s *suite) {
	one := shared(request("a", "one", 7))
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, one)), 7)
	s.register(s.want(node.Granted)(s.other.Extend(s.ctx, with(one, 7))), 7)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, shared(request("a", "two", 0)))), 7)
	s.register(s.want(node.Granted)(s.other.Extend(s.ctx, with(one, 30))), 7)
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, shared(request("a", "three", 0)))), 31)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, shared(request("a", "four", 0)))), 31)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(shared(request("a", "five", 0)), 40))), 31)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, shared(request("a", "six", 0)))), 41)
}

func sharedLeasesEndOneByOne(s *suite) {
	long := shared(request("a", "long", 7))
	s.want(node.Granted)(s.node.Acquire(s.ctx, long))
	brief := lasting(shared(request("a", "brief", 0)), short)
	s.want(node.Granted)(s.other.Acquire(s.ctx, brief))
	s.outwait()
	s.want(node.Lost)(s.node.Confirm(s.ctx, with(brief, 30)))
	s.want(node.Held)(s.node.Acquire(s.ctx, request("a", "alone", 0)))
	s.want(node.Granted)(s.node.Extend(s.ctx, lasting(long, short)))
	s.outwait()
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, request("a", "alone", 0))), 8)
}

func sharedNameRefusesWhoWantsItAlone(s *suite) {
	r := shared(request("a", "reader", 7))
	s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	alone := request("a", "alone", 0)
	s.want(node.Held)(s.other.Acquire(s.ctx, alone))
	s.want(node.Lost)(s.other.Extend(s.ctx, alone))
	s.want(node.Lost)(s.other.Confirm(s.ctx, with(alone, 100)))
	s.want(node.Lost)(s.other.Release(s.ctx, alone))
	r.Shared = false // it has agreed to share it
	s.want(node.Lost)(s.node.Extend(s.ctx, r))
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, alone)), 8)
	s.want(node.Held)(s.node.Acquire(s.ctx, shared(request("a", "reader", 0))))
	s.want(node.Lost)(s.node.Extend(s.ctx, shared(request("a", "reader", 0))))
}

// Holders of one of a number of slots share a name with those that use the same number, and with no
// others.
func slotsAreAgreedOn(s *suite) {
	of := func(slots int) node.Request {
		r := shared(request("a", "", 0))
		r.Holder = node.NewHolder([node.IDLength]byte([]byte(identity())), time.Now(), slots, fmt.Sprint("of ", slots))
		return r
	}
	refused := func(r node.Request, slots int, label string) {
		if a := s.want(node.Held)(s.other.Acquire(s.ctx, r)); a.Slots != slots || a.HeldBy != label {
			s.Errorf("held by %q, with one of %d slots; want %q, %d", a.HeldBy, a.Slots, label, slots)
		}
		s.want(node.Lost)(s.node.Extend(s.ctx, r))
	}
	three, another := of(3), of(3)
	s.want(node.Granted)(s.node.Acquire(s.ctx, three))
	s.want(node.Granted)(s.other.Acquire(s.ctx, another))
	refused(of(4), 3, "of 3 and 1 more that share it")
	refused(shared(request("a", "none", 0)), 3, "of 3 and 1 more that share it")
	s.want(node.Granted)(s.other.Extend(s.ctx, three))
	s.want(node.Granted)(s.node.Release(s.ctx, three))
	refused(of(4), 3, "of 3")
	s.want(node.Granted)(s.node.Release(s.ctx, another))

	reader := shared(request("a", "none", 0))
	s.want(node.Granted)(s.node.Acquire(s.ctx, reader))
	refused(of(3), 0, "none")
	s.want(node.Granted)(s.node.Release(s.ctx, reader))
	s.want(node.Granted)(s.node.Acquire(s.ctx, of(4)))
	refused(three, 4, "of 4")
}

// An operator sees each of those who share a name, and none whose lease has ended. A list may
// have fewer of them.
func sharesAreShown(s *suite) {
	begun := time.Now().Truncate(time.Millisecond)
	of := func(label string, ttl time.Duration) node.Request {
		r := lasting(shared(request("a", "", 7)), ttl)
		r.Holder = node.NewHolder([node.IDLength]byte([]byte(identity())), begun, 3, label)
		return r
	}
	var want []node.Request
	for i := range 20 {
		want = append(want, of(fmt.Sprintf("host %d/%d %s", i, i, strings.Repeat("x", 100)), long))
	}
	brief := of("brief", short)
	for _, r := range append(want, brief) {
		s.want(node.Granted)(s.node.Acquire(s.ctx, r))
	}
	s.want(node.Granted)(s.node.Confirm(s.ctx, with(want[1], 20)))
	s.outwait()
	l := s.inspect(s.other, "a")
	all, more := l.Shares()
	if len(all) != len(want) || more || l.Slots != 3 || !l.Shared {
		s.Fatalf("%d of %d shares are shown, with one of %d slots (more: %v): %+v", len(all), len(want), l.Slots, more, l)
	}
	byHolder := map[uint64]node.Share{}
	for _, one := range all {
		byHolder[one.Holder] = one
		s.plausible(one.Remaining)
	}
	for i, r := range want {
		one, found := byHolder[r.Holder.Fingerprint()]
		if !found || one.Label != r.Holder.Label() || !one.Since.Equal(begun) || one.Origin != 7 ||
			(one.Token == 20) != (i == 1) {
			s.Errorf("shown as %+v; want %q since %v", one, r.Holder.Label(), begun)
		}
	}
	if !s.other.admin() {
		return
	}
	listed := s.list()["a"]
	some, more := listed.Shares()
	if len(some) == 0 || len(some) < len(want) && !more || listed.Slots != 3 {
		s.Errorf("%d of %d shares are listed, with one of %d slots (more: %v)", len(some), len(want), listed.Slots, more)
	}
	for _, one := range some {
		if known, found := byHolder[one.Holder]; !found || known.Label != one.Label {
			s.Errorf("listed as %+v", one)
		}
	}
	if all, more := s.inspect(s.other, "nobody's").Shares(); len(all) > 0 || more {
		s.Errorf("%+v share a name that is free", all)
	}
	alone := s.takes("alone", "host", 0)
	if all, _ := s.inspect(s.other, "alone").Shares(); len(all) > 0 {
		s.Errorf("%+v share a name that %v has alone", all, alone.Holder)
	}
}

// A holder that goes on as one of several never leaves the name free, and keeps its origin.
func extendSharesTheName(s *suite) {
	r := s.takes("a", "me", 7)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, shared(with(r, 0)))), 7)
	other := shared(request("a", "other", 0))
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, other)), 8)
	s.want(node.Held)(s.node.Acquire(s.ctx, request("a", "alone", 0)))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, shared(with(r, 0)))), 7)
	s.want(node.Granted)(s.node.Release(s.ctx, r))
	s.want(node.Granted)(s.other.Release(s.ctx, other))
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, request("a", "alone", 0))), 9)
}

// A lease that is created again begins with the register, alone or beside others.
func extendSharesItAgain(s *suite) {
	one, two := shared(request("a", "one", 7)), shared(request("a", "two", 0))
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, with(one, 7))), 0)
	s.register(s.want(node.Granted)(s.other.Extend(s.ctx, with(two, 20))), 7)
	s.register(s.want(node.Granted)(s.other.Extend(s.ctx, with(one, 0))), 0)
	// Nothing was promised to those.
	s.register(s.want(node.Granted)(s.node.Acquire(s.ctx, shared(request("a", "three", 0)))), 21)
}

// A confirm that is executed again, after its holder lets others share the name, promises the
// holder's token to none of them. The same for a lease that was created again.
func confirmMakesNoEpoch(s *suite) {
	r := s.takes("a", "me", 1)
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, 7))), 7)
	s.register(s.want(node.Granted)(s.node.Extend(s.ctx, shared(with(r, 0)))), 1)
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(r, 7))), 7)
	one, two := shared(request("a", "one", 0)), shared(request("a", "two", 0))
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, one)), 8)
	s.register(s.want(node.Outrun)(s.node.Confirm(s.ctx, with(r, 7))), 8)
	// Where there is an epoch, it is moved.
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(one, 20))), 20)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, two)), 20)

	again := shared(request("b", "again", 0))
	s.want(node.Granted)(s.node.Extend(s.ctx, again))
	s.register(s.want(node.Granted)(s.node.Confirm(s.ctx, with(again, 7))), 7)
	s.register(s.want(node.Granted)(s.other.Acquire(s.ctx, shared(request("b", "one", 0)))), 8)
}

// reader returns a new waiter that wants to share the name.
func (q *queueSuite) reader(of *listener, stamp int64) waiter {
	w := q.waiter(of, stamp)
	delete(q.current, w.Waiter)
	w.Waiter = fmt.Sprintf("%s:0%d", of.client, q.numbers)
	q.current[w.Waiter] = true
	return w
}

// All first waiters that want to share the name are told at once, and none behind the next
// exclusive waiter.
func readersAreNotifiedTogether(q *queueSuite) {
	holder := q.holds()
	r1, r2, w, r3 := q.reader(q.near, 10), q.reader(q.far, 20), q.waiter(q.near, 30), q.reader(q.far, 40)
	q.queued(w, r3, r2, r1)
	q.releases(holder, r1, r2)
	one := q.granted(r1)
	q.refused(w)
	q.refused(r3)
	two := q.granted(r2)
	if one.Token != two.Token {
		q.failf(q.spent(), "they were promised %d and %d", one.Token, two.Token)
	}
	q.releases(one)
	q.refused(w)
	q.releases(two, w)
	q.refused(r3)
	alone := q.granted(w)
	q.releases(alone, r3)
	q.granted(r3)
}

// A client that comes to share a name that others share waits behind the waiter that came before
// it, until that one gives up.
func waitingForTheNameAloneStopsReaders(q *queueSuite) {
	first := q.granted(q.reader(q.near, 1))
	w, r := q.waiter(q.near, 10), q.reader(q.far, 20)
	q.queued(w, r)
	q.refused(q.reader(q.near, 30))
	q.leaves(w)
	q.releases(first)
	q.granted(r)
}

// What is reserved for a sharer of the name does not keep others from sharing it. It keeps an
// exclusive client from it for a second only.
func readerIsPassedOver(q *queueSuite) {
	holder, r := q.holds(), q.reader(q.near, 10)
	q.queued(r)
	q.releases(holder, r)
	q.refused(waiter{})
	other := q.granted(q.reader(q.far, 20))
	q.unreserved()
	q.releases(other)
	q.granted(q.waiter(q.near, 30))
}
