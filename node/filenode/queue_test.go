//go:build linux || darwin || freebsd

package filenode

import (
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

// with changes the room of a name, as an operation would.
func with(t testing.TB, n *Node, name string, change func(*room)) {
	t.Helper()
	r := inFile(t, n, name)
	change(r)
	if err := r.write(n, &n.header, n.clock()); err != nil {
		t.Fatal(err)
	}
}

// Asking renews a queue, with few writes.
func TestQueueIsRenewed(t *testing.T) {
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
}
