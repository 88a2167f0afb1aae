package valkeynode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

func TestQueueIsBounded(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
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
		// None of the others is there.
		a.release(a.request(1, 5))
		a.notified(a.waiter(2))
		a.granted(2, 1<<40)
		a.release(a.request(2, 1<<40))
		noTrace(t, s)
	})
}

// A lock and a queue never share a key, and a queue is never taken for a lease.
func TestNoLockHasTheKeyOfAQueue(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		if n, err := valkeynode.Open(s.URL(), valkeynode.WithPrefix("fenlock-line:x")); !errors.Is(err, fenlock.ErrInvalid) {
			t.Fatalf("%v, %v; want ErrInvalid", n, err)
		}
		s.MarkAdmitted("", time.Hour)
		allow(t, s, "")
		n := joined(t, s.URL(), time.Hour, valkeynode.WithPrefix(""))
		if a, err := n.Do(bounded(t), as(node.Acquire, request("fenlock-line:orders", "one"))); !errors.Is(err,
			fenlock.ErrInvalid) {
			t.Fatalf("%+v, %v; want ErrInvalid", a, err)
		}
		want(t, node.Granted)(acquire(t, n, request("fenlock-line", "one")), nil)
		waiting := request("fenlock-line", "two")
		waiting.Place = node.Place{Waiter: strings.Repeat("a", 32) + ":1", Stamp: 1}
		want(t, node.Held)(acquire(t, n, waiting), nil)
		if got := s.Do("TYPE", "fenlock-line:fenlock-line"); got != "zset" {
			t.Fatalf("the queue is a %s", got)
		}
		s.Do("SET", "fenlock-line:fake", strings.Repeat("0", 32)+":label")
		var names []string
		if err := n.List(bounded(t), "", func(l node.Lease) bool { names = append(names, l.Name); return true }); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(names) != "[fenlock-line]" {
			t.Fatalf("leases of %q", names)
		}
	})
}
