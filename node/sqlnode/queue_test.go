package sqlnode

import (
	"fmt"
	"sync/atomic"
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

// fast opens a node in which writing is cheap, where what is on the disk does not matter.
func fast(t testing.TB) *Node {
	t.Helper()
	n, _ := newNode(t)
	n.sync = "OFF"
	return n
}

// rows counts the rows of a table.
func rows(t testing.TB, n *Node, table string) (count int) {
	t.Helper()
	if err := n.db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// A full queue takes nobody, and those who are in it stay.
func TestQueueIsBounded(t *testing.T) {
	n := fast(t)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 50))))
	_, err := n.db.Exec(`WITH RECURSIVE c(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM c WHERE i < ?)
		INSERT INTO fenlock_waiters SELECT CAST('a' AS BLOB), 1000 + i, ? || ':' || i FROM c`, rule.MaxQueue-1, clientA)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(number int, stamp int64) int {
		return want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", fmt.Sprint(clientA, ":", number), stamp)))).Ahead
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
	if got := rows(t, n, "fenlock_waiters"); got != rule.MaxQueue {
		t.Errorf("%d rows", got)
	}
}

// Waiters whose processes were killed never leave, and their names may never be
// used again.
func TestExpiredQueuesAreDeleted(t *testing.T) {
	n := fast(t)
	var now atomic.Int64
	n.clock = func() time.Duration { return time.Duration(now.Load()) }
	most := 0
	for i := range 200 {
		name := fmt.Sprint("name ", i)
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(name, "", 0))))
		for k := range int64(3) {
			want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks(name, fmt.Sprint(clientA, ":", k+1), k+1))))
		}
		now.Add(int64(time.Second)) // 15 queues with 3 waiters are live at any time
		if i > 50 {
			most = max(most, rows(t, n, "fenlock_waiters"), rows(t, n, "fenlock_lines"))
		}
	}
	if most > 4*3*15 {
		t.Errorf("%d rows for 45 waiters in 15 queues", most)
	}
	// A queue that has expired is none, although its rows are there.
	now.Add(int64(rule.QueueExpiry))
	if got := ahead(t, n, "name 199"); got != 0 {
		t.Errorf("%d in a queue that has expired", got)
	}
	// And its waiters are not in the queue that begins after it.
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("name 199", clientB+":1", 9))))
	if got := ahead(t, n, "name 199"); got != 1 {
		t.Errorf("%d in a new queue, with one waiter", got)
	}
}

// Asking renews a queue, with few writes. One millisecond on either side of its end.
func TestQueueExpiry(t *testing.T) {
	n, _ := newNode(t)
	now := time.Hour
	n.clock = func() time.Duration { return now }
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
	w := asks("a", clientA+":1", 1)
	w.TTL = time.Hour
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	expires := func() (at int64) {
		if err := n.db.QueryRow(`SELECT expires FROM fenlock_lines`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	first := expires()
	now += renewal
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	if expires() != first {
		t.Error("the queue was written again for a question after a second")
	}
	now += time.Millisecond
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, w)))
	if expires() != (now + rule.QueueExpiry).Milliseconds() {
		t.Error("the queue was not renewed")
	}
	now += rule.QueueExpiry - time.Millisecond
	if got := ahead(t, n, "a"); got != 1 {
		t.Errorf("%d in the queue at its last millisecond", got)
	}
	now += time.Millisecond // who asked was no waiter, and does not count
	if got := ahead(t, n, "a"); got != 0 {
		t.Errorf("%d in the queue at its end", got)
	}
}

// The waiters of another boot are dead, and their expiry is on another clock.
func TestQueueOfAnotherBootIsVoid(t *testing.T) {
	n, path := newNode(t)
	for _, name := range []string{"a", "b"} {
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request(name, "", 0))))
		want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks(name, clientA+":1", 1))))
	}
	if _, err := n.db.Exec(`UPDATE fenlock_lines SET boot = 'another boot', expires = expires + 1000000`); err != nil {
		t.Fatal(err)
	}
	if got := ahead(t, n, "a"); got != 0 {
		t.Errorf("%d in the queue of another boot", got)
	}
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientB+":1", 2))))
	if got := ahead(t, n, "a"); got != 1 {
		t.Errorf("%d in the queue; want the one of this boot", got)
	}
	open(t, path) // drops the rest
	if l, w := rows(t, n, "fenlock_lines"), rows(t, n, "fenlock_waiters"); l != 1 || w != 1 {
		t.Errorf("%d queues, %d waiters after opening", l, w)
	}
}

// A file that was made before there were queues gets them when it is opened, also
// while somebody who does not know them is using it.
func TestOlderFileGainsQueues(t *testing.T) {
	older, path := newNode(t)
	held := request("a", "me", 7)
	want(t, node.Granted)(older.Do(t.Context(), as(node.Acquire, held)))
	if _, err := older.db.Exec(`DROP TABLE fenlock_lines; DROP TABLE fenlock_waiters`); err != nil {
		t.Fatal(err)
	}
	n := open(t, path)
	want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks("a", clientA+":1", 1))))
	if got := ahead(t, n, "a"); got != 1 {
		t.Errorf("%d in the queue", got)
	}
	want(t, node.Granted)(older.Do(t.Context(), as(node.Confirm, held)))
	want(t, node.Granted)(older.Do(t.Context(), as(node.Extend, held)))
	check(t, n)
}
