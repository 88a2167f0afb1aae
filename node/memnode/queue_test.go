package memnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// client returns an identity to listen with.
func client(digit string) string { return strings.Repeat(digit, 32) }

// waiting is a request with a place.
func waiting(name, client string, number int) node.Request {
	r := request(name, fmt.Sprint("waiter ", number), 0)
	r.Place = node.Place{Waiter: fmt.Sprintf("%s:%d", client, number), Stamp: int64(number)}
	return r
}

// events collects what a listener is told. Notifications come in the goroutine of the
// operation, so there is nothing to wait for.
type events []string

func (e *events) add(waiter string) { *e = append(*e, waiter) }

func (e *events) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*e, want) {
		t.Errorf("told %q; want %q", *e, want)
	}
	*e = nil
}

// A crash is a loss of the queues, and of the notifications that were made meanwhile. Listeners are
// told when it is over, and once.
func TestRestartTellsListeners(t *testing.T) {
	n, ctx := New("a"), t.Context()
	other := n.Share()
	var here, there events
	if err := errors.Join(n.Listen(ctx, client("a"), here.add), other.Listen(ctx, client("b"), there.add)); err != nil {
		t.Fatal(err)
	}
	must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 0))))
	must(t, node.Held)(n.Do(ctx, as(node.Acquire, waiting("x", client("a"), 1))))
	n.Restart() // up already: nothing happens
	n.Crash()
	here.want(t)
	n.Restart()
	here.want(t, "")
	there.want(t, "")

	// Nothing is left of the queues before.
	n.Admit(nil)
	here.want(t)
	must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 0))))
	if a := must(t, node.Held)(n.Do(ctx, as(node.Acquire, request("x", "two", 0)))); a.Ahead != 0 {
		t.Errorf("%d in the queue after a loss of memory", a.Ahead)
	}
	must(t, node.Held)(n.Do(ctx, as(node.Acquire, waiting("x", client("b"), 2))))
	must(t, node.Granted)(n.Do(ctx, as(node.Release, request("x", "one", 0))))
	here.want(t)
	there.want(t, client("b")+":2")
}

// Listening goes on in the background although the node is down.
func TestListenOnANodeThatIsDown(t *testing.T) {
	n, ctx := New("a"), t.Context()
	n.Crash()
	var here events
	if err := n.Listen(ctx, client("a"), here.add); !errors.Is(err, ErrDown) ||
		!strings.Contains(err.Error(), "memnode a") {
		t.Errorf("listen while down: %v", err)
	}
	n.Restart()
	here.want(t, "")
	n.Admit(nil)
	must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 0))))
	must(t, node.Held)(n.Do(ctx, as(node.Acquire, waiting("x", client("a"), 1))))
	must(t, node.Granted)(n.Do(ctx, as(node.Release, request("x", "one", 0))))
	here.want(t, client("a")+":1")
}

// Notify may use the node: it is called after the operation.
func TestNotifyMayUseTheNode(t *testing.T) {
	n, ctx := New("a"), t.Context()
	var a node.Answer
	var err error
	n.Listen(ctx, client("a"), func(string) { a, err = n.Do(ctx, as(node.Acquire, waiting("x", client("a"), 1))) })
	must(t, node.Granted)(n.Do(ctx, as(node.Acquire, request("x", "one", 0))))
	must(t, node.Held)(n.Do(ctx, as(node.Acquire, waiting("x", client("a"), 1))))
	must(t, node.Granted)(n.Do(ctx, as(node.Release, request("x", "one", 0))))
	must(t, node.Granted)(a, err)
}

// Names that are used once and never again must not stay in memory (the bug of Redisson #6510). Nor
// must what is left of closed nodes and of waiters that were killed; and a sweep must not take a
// live lease or queue.
func TestQueuesAndListenersAreFreed(t *testing.T) {
	clock := new(fakeClock)
	n, ctx := New("a", WithClock(clock.Now)), t.Context()
	keeper := request("keep", "keeper", 0)
	keeper.TTL = time.Hour
	must(t, node.Granted)(n.Do(ctx, as(node.Acquire, keeper)))
	largest := 0
	for i := range 20_000 {
		name := fmt.Sprint("name ", i)
		r := request(name, "h", 0)
		r.TTL = time.Millisecond
		must(t, node.Granted)(n.Do(ctx, as(node.Acquire, r)))
		must(t, node.Held)(n.Do(ctx, as(node.Acquire, waiting(name, client("a"), 1))))
		must(t, node.Held)(n.Do(ctx, as(node.Acquire, waiting("keep", client("a"), 1))))
		largest = max(largest, len(n.store.Leases)+len(n.store.Queues))
		clock.Advance(rule.QueueExpiry / 100) // so that 100 are live at any time
	}
	if largest > 2*(2+101+1)+64 {
		t.Errorf("up to %d leases and queues were kept for 101 live queues", largest)
	}
	if len(n.store.Registers) > node.Stripes {
		t.Errorf("%d registers", len(n.store.Registers))
	}
	if a := must(t, node.Held)(n.Do(ctx, as(node.Acquire, request("keep", "other", 0)))); a.Ahead != 1 {
		t.Errorf("%d in a queue that is in use", a.Ahead)
	}
	for i := range 100 {
		other := n.Share()
		if err := other.Listen(ctx, fmt.Sprintf("%032x", i), func(string) {}); err != nil {
			t.Fatal(err)
		}
		other.Close()
	}
	if len(n.store.listeners) != 0 {
		t.Errorf("%d listeners are left of closed nodes", len(n.store.listeners))
	}
}
