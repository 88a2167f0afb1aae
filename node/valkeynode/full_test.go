package valkeynode_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// full has a server refuse what may need memory, or ends that. Others' data have filled it.
func full(s *testserver.Server, is bool) {
	limit := "0"
	if is {
		limit = "1"
	}
	s.Do("CONFIG", "SET", "maxmemory", limit)
}

// noRoom checks that a request failed because the server is full.
func noRoom(t *testing.T, what string, a node.Answer, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "no memory left") {
		t.Errorf("%s on a full server: %+v, %v", what, a, err)
	}
}

// lasts checks that a key lives for more than half a minute: it was extended.
func lasts(t *testing.T, s *testserver.Server, key string) {
	t.Helper()
	if left, err := strconv.Atoi(s.Do("PTTL", key)); err != nil || left < 30_000 {
		t.Errorf("%s lasts for %d ms, %v", key, left, err)
	}
}

// brief leases a name for a time that ends soon, but not within the test.
func brief(t *testing.T, s *testserver.Server, n node.Node, r node.Request) node.Request {
	t.Helper()
	r.Op = node.Acquire
	r.Token = want(t, node.Granted)(n.Do(bounded(t), r)).Register
	s.Do("PEXPIRE", "fenlock:"+r.Name, "20000")
	return r
}

// A full server extends the lease that exists, the first time too, when the holder's token joins
// the value, and raises its register. It creates none.
func TestFullServerExtends(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		r := brief(t, s, n, long(theName, "one"))
		r.Op, r.OwnToken = node.Extend, r.Token
		full(s, true)
		for range 2 {
			if a := want(t, node.Granted)(n.Do(bounded(t), r)); a.Register != r.OwnToken {
				t.Errorf("%+v", a)
			}
			lasts(t, s, theKey)
			s.Do("PEXPIRE", theKey, "20000")
		}
		// What is granted with a floor is a promise that the register has it.
		stripe := fmt.Sprint(node.Stripe(theName))
		r.Token += 1000
		want(t, node.Granted)(n.Do(bounded(t), r))
		if got := s.Do("HGET", registersKey, stripe); got != r.Token.String() {
			t.Errorf("the register is %s; want %d", got, r.Token)
		}
		lasts(t, s, theKey)

		for what, value := range map[string]string{"gone": "", "reserved": "next:" + clientName(0) + ":1"} {
			if s.Do("DEL", theKey); value != "" {
				full(s, false)
				s.Do("SET", theKey, value)
				full(s, true)
			}
			r.Token += 1000
			a, err := n.Do(bounded(t), r)
			noRoom(t, "the extension of what is "+what, a, err)
			if got := s.Do("HGET", registersKey, stripe); got == r.Token.String() ||
				s.Do("EXISTS", theKey) == "1" != (value != "") {
				t.Errorf("it was refused, and the register is %s, the lease %s", got, s.Do("GET", theKey))
			}
		}
		full(s, false)
		want(t, node.Granted)(n.Do(bounded(t), r))
	})
}

// So it is for several that share a name, or that begin to.
func TestFullServerExtendsShared(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		one := brief(t, s, n, shared(node.Acquire, "one"))
		brief(t, s, n, shared(node.Acquire, "two"))
		one.Op, one.OwnToken = node.Extend, one.Token
		full(s, true)
		for range 2 {
			if a := want(t, node.Granted)(n.Do(bounded(t), one)); a.Register != one.OwnToken {
				t.Errorf("%+v", a)
			}
			lasts(t, s, theKey)
			s.Do("PEXPIRE", theKey, "20000")
		}
		one.Token += 1000
		want(t, node.Granted)(n.Do(bounded(t), one))
		if got := s.Do("HGET", registersKey, fmt.Sprint(node.Stripe(theName))); got != one.Token.String() {
			t.Errorf("the register is %s; want %d", got, one.Token)
		}
		before := s.Do("GET", theKey)
		a, err := n.Do(bounded(t), shared(node.Extend, "three"))
		noRoom(t, "the extension of a share that is gone", a, err)
		a, err = n.Do(bounded(t), shared(node.Acquire, "three"))
		noRoom(t, "another share", a, err)
		if got := s.Do("GET", theKey); got != before {
			t.Errorf("the lease is %q after a refusal; before %q", got, before)
		}

		full(s, false)
		alone := brief(t, s, n, long("alone", "one"))
		alone.Op, alone.OwnToken, alone.Shared = node.Extend, alone.Token, true
		full(s, true)
		want(t, node.Granted)(n.Do(bounded(t), alone))
		lasts(t, s, "fenlock:alone")
	})
}

// What frees memory works on a full server, whatever else it comes to. The next waiter is given the
// name, a share goes while others stay, and its waiter enters the queue again.
func TestFullServerReleases(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		events := subscribed(t, n, "a")
		waiter := node.Place{Waiter: clientName(0) + ":1", Stamp: 1}
		queue := func(name string) { s.Do("ZADD", "fenlock-line:fenlock:"+name, "1", waiter.Waiter) }
		release := func(r node.Request) { want(t, node.Granted)(n.Do(bounded(t), as(node.Release, r))) }

		given := granted(t, n, "given")
		given.Next = 1_000_000
		queue("given")
		told := granted(t, n, "told")
		queue("told")
		forced := granted(t, n, "forced")
		queue("forced")
		full(s, true)
		release(given)
		if said := next(t, events); !strings.HasPrefix(said, waiter.Waiter+" 1000000 ") ||
			s.Do("EXISTS", "fenlock:given") != "1" {
			t.Errorf("%q was told", said)
		}
		release(told)
		if said := next(t, events); said != waiter.Waiter {
			t.Errorf("%q was told", said)
		}
		forced.Token += 1000
		if a := want(t, node.Granted)(n.Do(bounded(t), as(node.ForceRelease, forced))); a.Register != forced.Token {
			t.Errorf("%+v", a)
		}
		if said := next(t, events); said != waiter.Waiter ||
			s.Do("HGET", registersKey, fmt.Sprint(node.Stripe("forced"))) != forced.Token.String() {
			t.Errorf("%q was told", said)
		}

		full(s, false)
		for _, holder := range []string{"one", "two", "three"} {
			want(t, node.Granted)(n.Do(bounded(t), shared(node.Acquire, holder)))
		}
		full(s, true)
		again := shared(node.Release, "one")
		again.Place = node.Place{Waiter: clientName(0) + ":2", Stamp: 7}
		release(again)
		if got := s.Do("ZSCORE", queueKey, again.Place.Waiter); got != "7" {
			t.Errorf("the waiter's stamp in the queue is %s", got)
		}
		again.Place.Stamp = 0
		if a, err := n.Do(bounded(t), again); err != nil || a.Status != node.Lost || s.Do("EXISTS", queueKey) != "0" {
			t.Errorf("the waiter leaves: %+v, %v", a, err)
		}
		release(shared(node.Release, "two"))
		if got := s.Do("GET", theKey); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, ":three") {
			t.Errorf("the lease is %q", got)
		}
		release(shared(node.Release, "three"))
		if s.Do("EXISTS", theKey) != "0" {
			t.Error("the last one has left, and the lease is there")
		}
	})
}

// A confirm belongs to an acquisition, which a full server refuses. Nothing is changed by half.
func TestFullServerRefusesToConfirm(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		alone := granted(t, n, "alone")
		several := shared(node.Acquire, "one")
		several.Token = want(t, node.Granted)(n.Do(bounded(t), several)).Register
		full(s, true)
		for _, r := range []node.Request{alone, several} {
			register := func() string { return s.Do("HGET", registersKey, fmt.Sprint(node.Stripe(r.Name))) }
			value, before := s.Do("GET", "fenlock:"+r.Name), register()
			r.Token += 7
			a, err := n.Do(bounded(t), as(node.Confirm, r))
			noRoom(t, "a confirm", a, err)
			if got := s.Do("GET", "fenlock:"+r.Name); got != value || register() != before {
				t.Errorf("the lease is %q, and the register %s; before %q and %s", got, register(), value, before)
			}
			want(t, node.Granted)(n.Do(bounded(t), as(node.Release, r)))
		}
	})
}

// A full server that lost its memory does not vote, and the reason is told. It votes when there is
// room.
func TestFullServerIsNotAdmitted(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, groupTTL)
		s.Do("DEL", registersKey)
		full(s, true)
		if a := want(t, node.Rejoining)(n.Do(bounded(t),
			as(node.Acquire, request("full", "one")))); !strings.Contains(a.Absence.Detail, "no memory left") {
			t.Errorf("%+v", a)
		}
		if got := s.Do("HGETALL", registersKey); got != "[]" {
			t.Errorf("the registers are %s", got)
		}
		full(s, false)
		acquire(t, n, request("after", "two"))
	})
}

// A full server whose script cache was flushed has lost nothing, and goes on to extend.
func TestFullServerLosesItsScripts(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		r := brief(t, s, n, long(theName, "one"))
		r.Op = node.Extend
		full(s, true)
		s.Do("SCRIPT", "FLUSH")
		want(t, node.Granted)(n.Do(bounded(t), r))
		lasts(t, s, theKey)
	})
}

// Acquires that are sent together create nothing, and their releases work.
// TestSeveralExtendsAreAsOne has the extends.
func TestFullServerAndSeveral(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, n := admitted(t, kind, time.Minute)
		exchange(n, several(node.Acquire, 8))
		s.Do("DEL", "fenlock:3", "fenlock:7")
		full(s, true)
		more := several(node.Acquire, 4)
		for i := range more {
			more[i].Name = fmt.Sprint("more ", i)
		}
		for i, c := range oneCommand(t, s, n, more) {
			noRoom(t, fmt.Sprint("acquire ", i), c.answer, c.err)
		}
		if got := s.Do("EXISTS", "fenlock:3", "fenlock:7", "fenlock:more 0", "fenlock:more 1", "fenlock:more 2",
			"fenlock:more 3"); got != "0" {
			t.Errorf("%s leases were created", got)
		}
		for i, c := range oneCommand(t, s, n, several(node.Release, 8)) {
			if c.err != nil || c.answer.Status == node.Granted != (i != 3 && i != 7) {
				t.Errorf("release %d: %+v, %v", i, c.answer, c.err)
			}
		}
	})
}

// oneCommand exchanges requests, and checks that they were one command.
func oneCommand(t *testing.T, s *testserver.Server, n *valkeynode.Node, requests []node.Request) []*call {
	t.Helper()
	before := commandsOf(t, s)["evalsha"]
	all := exchange(n, requests)
	if sent := commandsOf(t, s)["evalsha"] - before; sent != 1 {
		t.Errorf("they were %d commands", sent)
	}
	return all
}
