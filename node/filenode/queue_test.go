//go:build linux || darwin || freebsd

package filenode

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

const (
	clientA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	clientB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// asks is a request of a waiter.
func asks(name, waiter string, stamp int64) node.Request {
	r := request(name, "waiter", 0)
	r.Place = node.Place{Waiter: waiter, Stamp: stamp}
	return r
}

// ahead returns how many a node says are in the queue of a name that is held.
func ahead(t testing.TB, n *Node, name string) int {
	t.Helper()
	return want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, request(name, "", 0)))).Ahead
}

// with changes the room of a name, as an operation would.
func with(t testing.TB, n *Node, name string, change func(*room)) {
	t.Helper()
	r := inFile(t, n, name)
	change(r)
	if err := r.write(n, &n.header, n.clock()); err != nil {
		t.Fatal(err)
	}
}

// A full queue takes no waiter, and those in it stay.
func TestQueueIsBounded(t *testing.T) {
	n, _ := newNode(t)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 50))))
	with(t, n, "a", func(r *room) {
		q := r.Queues["a"]
		for i := 2; i < rule.MaxQueue; i++ {
			q.Waiters = append(q.Waiters, node.Place{Waiter: fmt.Sprint(clientA, ":", i), Stamp: int64(1000 + i)})
		}
		r.Queues["a"] = q
	})
	ask := func(number int, stamp int64) int {
		return want(t, node.Held)(n.Do(t.Context(),
			as(node.Acquire, asks("a", fmt.Sprint(clientA, ":", number), stamp)))).Ahead
	}
	if got := ask(rule.MaxQueue, 1<<53); got != rule.MaxQueue-1 {
		t.Errorf("the last one has %d before it", got)
	}
	for range 2 { // it is not in the queue afterwards, however early it began
		if got := ask(rule.MaxQueue+1, 1); got != rule.MaxQueue {
			t.Errorf("one too many has %d before it", got)
		}
	}
	if got := ask(1, 50); got != 0 {
		t.Errorf("the first one has %d before it", got)
	}
	if got := len(inFile(t, n, "a").Queues["a"].Waiters); got != rule.MaxQueue {
		t.Errorf("%d in the file", got)
	}
}

// Asking renews a queue, with few writes. One nanosecond on either side of its end.
func TestQueueExpiry(t *testing.T) {
	n, _ := newNode(t)
	now := time.Hour
	n.clock = func() time.Duration { return now }
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	w := asks("a", clientA+":1", 1)
	w.TTL = time.Hour
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	expires := func() time.Duration { return inFile(t, n, "a").Queues["a"].Expires }
	first := expires()
	now += time.Second
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	if expires() != first {
		t.Error("the queue was written again for a question after a second")
	}
	now++
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	if expires() != now+rule.QueueExpiry {
		t.Error("the queue was not renewed")
	}
	now += rule.QueueExpiry - 1
	if got := ahead(t, n, "a"); got != 1 {
		t.Errorf("%d in the queue in its last nanosecond", got)
	}
	now++ // the one that asked was no waiter, and does not count
	if got := ahead(t, n, "a"); got != 0 {
		t.Errorf("%d in the queue at its end", got)
	}
}
