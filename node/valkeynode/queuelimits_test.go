package valkeynode_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

func TestQueueExpires(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
		a := p[0]
		ttl := func() int {
			t.Helper()
			ms, err := strconv.Atoi(s.Do("PTTL", queueKey))
			if err != nil || ms < 0 || ms > 15000 {
				t.Fatalf("the queue ends in %d ms, %v", ms, err)
			}
			return ms
		}
		// Set low by hand: only a renewal can have raised it.
		const low = 1000
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"enqueue", func() { a.hold(); a.refused(1, 100, 0) }},
			{"ask again", func() { a.refused(1, 100, 0) }},
			{"another is enqueued", func() { a.refused(2, 200, 1) }},
			{"enqueue by a release", func() { a.released(a.request(3, 300), node.Lost) }},
		} {
			s.Do("PEXPIRE", queueKey, fmt.Sprint(low))
			step.do()
			if ttl() <= low {
				t.Errorf("%s: the queue was not kept for longer", step.name)
			}
		}
		s.Do("PEXPIRE", queueKey, "1")
		eventually(t, func() error {
			if s.Do("EXISTS", queueKey) != "0" {
				return errors.New("the queue is there")
			}
			return nil
		})
		a.refused(3, 300, 0)
	})
}

func TestQueueIsBounded(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
		a := p[0]
		first := a.hold()
		a.refused(1, 5, 0)
		command := []string{"ZADD", queueKey}
		for i := range 9998 {
			command = append(command, fmt.Sprint(10+i), fmt.Sprintf("%032d:%d", 0, i))
		}
		s.Do(command...)
		a.refused(2, 1<<40, 9999) // the last one
		a.refused(3, 1, 10_000)   // before them all, but too late
		a.refused(1, 5, 0)
		if n := s.Do("ZCARD", queueKey); n != "10000" {
			t.Fatalf("%s in the queue", n)
		}
		a.released(a.request(3, 1), node.Lost)
		if n := s.Do("ZCARD", queueKey); n != "10000" {
			t.Fatalf("%s in the queue after a release", n)
		}
		a.release(first)
		a.notified(a.waiter(1))
		// Its place is free, so the one that was too late comes in.
		a.refused(3, 1, 0)
		a.granted(1, 5)
		a.released(node.Request{Name: "orders", Place: node.Place{Waiter: a.waiter(3)}}, node.Lost)
		// Nobody of the others is there.
		a.release(a.request(1, 5))
		a.notified(a.waiter(2))
		a.granted(2, 1<<40)
		a.release(a.request(2, 1<<40))
		noTrace(t, s)
	})
}

// Queues are lost with the server's memory, and may be.
func TestQueuesAreLost(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		first := a.hold()
		b.refused(1, 100, 0)
		s.Do("SCRIPT", "FLUSH")
		b.refused(1, 100, 0)
		s.Do("SCRIPT", "FLUSH")
		// The scripts are loaded again by an acquire or by this.
		a.release(first)
		b.notified(b.waiter(1))
		b.granted(1, 100)
		a.refused(1, 200, 0)

		s.Do("FLUSHALL")
		s.Do("SCRIPT", "FLUSH")
		if got, err := a.Do(bounded(t), as(node.Acquire, a.request(1, 200))); err != nil || got.Status != node.Rejoining {
			t.Fatalf("%+v, %v; want it rejoining", got, err)
		}
		if _, err := b.Do(bounded(t), as(node.Release, b.request(1, 100))); err != nil {
			t.Fatal(err)
		}
		silent(t, a, b)
		if got := s.Do("EXISTS", queueKey, "fenlock:orders"); got != "0" {
			t.Fatal("a server that is out wrote something")
		}
		// The subscription goes on.
		for _, x := range p {
			if got := s.Do("PUBLISH", "fenlock-wake:"+x.client, "7"); got != "1" {
				t.Fatalf("%s told", got)
			}
			x.notified(x.waiter(7))
		}
	})
}

// A foreign key in the place of a queue: nothing is leased, nothing is broken.
func TestQueueIsSomethingElse(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
		s.Do("SET", queueKey, "mine")
		if a, err := p[0].Do(bounded(t), as(node.Acquire, p[0].request(1, 100))); !errors.Is(err, fenlock.ErrMisconfigured) {
			t.Fatalf("%+v, %v; want ErrMisconfigured", a, err)
		}
		if s.Do("EXISTS", "fenlock:orders") != "0" || s.Do("GET", queueKey) != "mine" {
			t.Fatal("something was changed")
		}
	})
}

// A lock and a queue never share a key, and a queue is never taken for a lease.
func TestNoLockHasTheKeyOfAQueue(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s := testserver.Start(t, kind)
		if n, err := valkeynode.Open(s.URL(), valkeynode.WithPrefix("fenlock-line:x")); !errors.Is(err, fenlock.ErrInvalid) {
			t.Fatalf("%v, %v; want ErrInvalid", n, err)
		}
		markAdmitted(t, s, "", time.Hour)
		n := joined(t, s.URL(), time.Hour, valkeynode.WithPrefix(""))
		if a, err := n.Do(bounded(t), as(node.Acquire, request("fenlock-line:orders", "one"))); !errors.Is(err, fenlock.ErrInvalid) {
			t.Fatalf("%+v, %v; want ErrInvalid", a, err)
		}
		if a := acquire(t, n, request("fenlock-line", "one")); a.Status != node.Granted {
			t.Fatalf("%+v, want it granted", a)
		}
		waiting := request("fenlock-line", "two")
		waiting.Place = node.Place{Waiter: strings.Repeat("a", 32) + ":1", Stamp: 1}
		if a := acquire(t, n, waiting); a.Status != node.Held {
			t.Fatalf("%+v, want it held", a)
		}
		if got := s.Do("TYPE", "fenlock-line:fenlock-line"); got != "zset" {
			t.Fatalf("the queue is a %s", got)
		}
		s.Do("SET", "fenlock-line:fake", strings.Repeat("0", 32)+":label")
		var names []string
		if err := n.List(bounded(t), func(l node.Lease) bool { names = append(names, l.Name); return true }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(names) != "[fenlock-line]" {
			t.Fatalf("leases of %q", names)
		}
	})
}

func TestBadPlaceIsNotSent(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
		a := p[0]
		a.hold()
		client := strings.Repeat("a", 32)
		for _, place := range []node.Place{
			{Waiter: "a:1", Stamp: 1},
			{Waiter: client, Stamp: 1},
			{Waiter: client + ":", Stamp: 1},
			{Waiter: client + ":x", Stamp: 1},
			{Waiter: strings.Repeat("x", 32) + ":1", Stamp: 1},
			{Waiter: client + "a:1", Stamp: 1},
			{Waiter: client + ":1", Stamp: -1},
			{Waiter: client + ":1", Stamp: 1<<53 + 1},
		} {
			r := a.request(1, 1)
			r.Place = place
			if got, err := a.Do(bounded(t), as(node.Acquire, r)); !errors.Is(err, fenlock.ErrInvalid) {
				t.Errorf("acquire with %+v: %+v, %v; want ErrInvalid", place, got, err)
			}
			if got, err := a.Do(bounded(t), as(node.Release, r)); !errors.Is(err, fenlock.ErrInvalid) {
				t.Errorf("release with %+v: %+v, %v; want ErrInvalid", place, got, err)
			}
		}
		if s.Do("EXISTS", queueKey) != "0" {
			t.Error("somebody is in the queue")
		}
	})
}
