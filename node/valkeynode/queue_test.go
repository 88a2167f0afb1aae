package valkeynode_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

func TestQueueGoesByStamp(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		first := a.hold()
		clock := func() time.Duration {
			var seconds, micros int64
			fmt.Sscanf(s.Do("TIME"), "[%d %d]", &seconds, &micros)
			return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
		}
		before := clock()
		answer := a.refused(1, 300, 0)
		if after := clock(); answer.Clock < before || answer.Clock > after {
			t.Fatalf("clock %v is not between %v and %v", answer.Clock, before, after)
		}
		b.refused(1, 100, 0)
		a.refused(2, 200, 1)
		a.refused(1, 300, 2)
		a.refused(1, 50, 2) // it keeps the place that it has
		nobody := a.request(9, 0)
		nobody.Place = node.Place{}
		if got := acquire(t, a.Node, nobody); got.Ahead != 3 {
			t.Fatalf("%+v, want 3 ahead of who is not in the queue", got)
		}
		silent(t, a, b)

		a.release(first)
		b.notified(b.waiter(1))
		// Nobody else has it meanwhile, and everybody sees why.
		if got := a.refused(2, 200, 0); got.HeldBy != node.NextInQueue || got.Remaining <= 0 || got.Remaining > time.Second {
			t.Fatalf("%+v, want it reserved for the next in the queue", got)
		}
		if got := acquire(t, a.Node, nobody); got.Status != node.Held {
			t.Fatalf("%+v, want it held", got)
		}
		lease, err := a.Inspect(bounded(t), "orders")
		if err != nil || lease.Label != node.NextInQueue || lease.Remaining <= 0 {
			t.Fatalf("inspect: %+v, %v", lease, err)
		}
		var listed []node.Lease
		if err := a.List(bounded(t), func(l node.Lease) bool { listed = append(listed, l); return true }); err != nil {
			t.Fatal(err)
		}
		if len(listed) != 1 || listed[0].Name != "orders" || listed[0].Label != node.NextInQueue {
			t.Fatalf("list: %+v", listed)
		}
		b.granted(1, 100)
		silent(t, a, b)

		b.release(b.request(1, 100))
		a.notified(a.waiter(2))
		a.granted(2, 200)
		a.release(a.request(2, 200))
		a.notified(a.waiter(1))
		a.granted(1, 300)
		a.release(a.request(1, 300))
		silent(t, a, b)
		noTrace(t, s)
	})
}

// Who was notified has the name, also if somebody who came earlier was late to enter
// the queue here: that one waits for the next release.
func TestNotifiedIsNotPassed(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		first := a.hold()
		a.refused(1, 200, 0)
		a.release(first)
		a.notified(a.waiter(1))
		b.refused(1, 100, 0)
		a.granted(1, 200)
		silent(t, a, b)
		a.release(a.request(1, 200))
		b.notified(b.waiter(1))
		b.granted(1, 100)
		b.release(b.request(1, 100))
		noTrace(t, s)
	})
}

// Whoever is granted the name is in no queue, however it came to be in one.
func TestNotifiedLeavesTheQueue(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
		a := p[0]
		first := a.hold()
		a.refused(1, 100, 0)
		a.release(first)
		a.notified(a.waiter(1))
		s.Do("ZADD", queueKey, "100", a.waiter(1))
		a.granted(1, 100)
		a.release(a.request(1, 100))
		silent(t, a)
		noTrace(t, s)
	})
}

func TestForceReleaseNotifiesTheNext(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		_, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		a.hold()
		b.refused(1, 100, 0)
		if _, err := a.Do(bounded(t), node.Request{Op: node.ForceRelease, Name: "orders", Token: 1}); err != nil {
			t.Fatal(err)
		}
		b.notified(b.waiter(1))
		b.granted(1, 100)
		silent(t, a, b)
	})
}

// monitor subscribes to every channel, as tools do that show what is going on: it
// must not be taken for a waiter.
func monitor(t *testing.T, s *testserver.Server) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "PSUBSCRIBE *\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if n := s.Do("PUBSUB", "NUMPAT"); n != "1" {
			return errors.New(n + " patterns")
		}
		return nil
	})
}

func TestDeadWaiterIsSkipped(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		monitor(t, s)
		a, b := p[0], p[1]
		first := a.hold()
		b.refused(1, 100, 0)
		b.refused(2, 150, 1)
		a.refused(1, 200, 2)
		b.Close()
		eventually(t, func() error {
			if channels := s.Do("PUBSUB", "CHANNELS"); strings.Contains(channels, b.client) {
				return errors.New(channels)
			}
			return nil
		})
		a.release(first)
		a.notified(a.waiter(1))
		a.granted(1, 200)
		a.release(a.request(1, 200))
		noTrace(t, s)
	})
}

func TestHungWaiterIsPassedOver(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		_, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		first := a.hold()
		b.refused(1, 100, 0)
		a.refused(1, 200, 1)
		a.release(first)
		b.notified(b.waiter(1))
		eventually(t, func() error {
			if got := a.ask(1, 200); got.Status != node.Granted {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
		// It comes back to the end of the queue, where its stamp puts it.
		b.refused(1, 100, 0)
		silent(t, a, b)
	})
}

// An attempt that has failed gives the name back and waits on. Its waiter is the
// first, so it is not notified, and nobody else either.
func TestHeadThatIsEnqueuedAgainIsNotNotified(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		a.granted(1, 100)
		b.refused(1, 200, 0)
		a.released(a.request(1, 100), node.Granted)
		silent(t, a, b)
		if got := s.Do("ZRANGE", queueKey, "0", "-1", "WITHSCORES"); got != fmt.Sprintf("[%s 100 %s 200]", a.waiter(1), b.waiter(1)) {
			t.Fatalf("the queue: %s", got)
		}
		if ttl, _ := strconv.Atoi(s.Do("PTTL", queueKey)); ttl <= 0 {
			t.Fatal("the queue has no end")
		}
		if got := s.Do("EXISTS", "fenlock:orders"); got != "0" {
			t.Fatal("the name is not free")
		}
		// Now that it is free, whoever asks leads to the first being notified.
		b.refused(1, 200, 0)
		a.notified(a.waiter(1))
		// What is reserved for it is given up in the same way. It does not matter that
		// its last attempt has no lease.
		a.released(a.request(1, 100), node.Lost)
		silent(t, a, b)
		b.refused(1, 200, 0)
		a.notified(a.waiter(1))
		a.released(node.Request{Name: "orders", Place: node.Place{Waiter: a.waiter(1)}}, node.Lost)
		b.notified(b.waiter(1))
		b.granted(1, 200)
		b.release(b.request(1, 200))
		noTrace(t, s)
	})
}

// The only one in the queue is put into it again: the queue ends and begins with it.
func TestOnlyOneIsEnqueuedAgain(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 1)
		a := p[0]
		big := 1 << 53
		a.granted(1, big)
		a.released(a.request(1, big), node.Granted)
		if got := s.Do("ZRANGE", queueKey, "0", "-1", "WITHSCORES"); got != fmt.Sprintf("[%s %d]", a.waiter(1), big) {
			t.Fatalf("the queue: %s", got)
		}
		if ttl, _ := strconv.Atoi(s.Do("PTTL", queueKey)); ttl <= 0 {
			t.Fatal("the queue has no end")
		}
		a.granted(1, big)
		a.release(a.request(1, big))
		silent(t, a)
		noTrace(t, s)
	})
}

func TestLeave(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		first := a.hold()
		a.refused(1, 100, 0)
		b.refused(1, 200, 1)
		a.released(node.Request{Name: "orders", Place: node.Place{Waiter: a.waiter(1)}}, node.Lost)
		b.refused(1, 200, 0)
		b.released(node.Request{Name: "orders", Place: node.Place{Waiter: b.waiter(1)}}, node.Lost)
		a.release(first)
		silent(t, a, b)
		noTrace(t, s)
	})
}

// A lease of another Redlock client refuses. It notifies nobody when it ends, but the
// first who asks then does.
func TestQueueBehindAForeignLease(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		if reply := s.Do("SET", "fenlock:orders", "kxhjdz", "NX", "PX", "600000"); reply != "OK" {
			t.Fatal(reply)
		}
		if got := b.refused(1, 100, 0); got.HeldBy != "" || got.Remaining <= 0 {
			t.Fatalf("%+v, want a foreign holder and an end", got)
		}
		s.Do("PEXPIRE", "fenlock:orders", "1")
		eventually(t, func() error {
			if s.Do("EXISTS", "fenlock:orders") != "0" {
				return errors.New("the lease is there")
			}
			return nil
		})
		if got := a.refused(1, 200, 0); got.HeldBy != node.NextInQueue {
			t.Fatalf("%+v, want it reserved for the next in the queue", got)
		}
		b.notified(b.waiter(1))
		b.granted(1, 100)
		silent(t, a, b)
	})
}
