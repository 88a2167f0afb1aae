package nodetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// A client that is refused and will wait is in the queue from that moment on: no second request
// that could come too late. A client that only tries is not: it would be notified when it has long
// gone.
func refusedWithAPlaceIsQueued(q *queueSuite) {
	q.holds()
	stranger, w1, w2 := waiter{}, q.waiter(q.near, 10), q.waiter(q.far, 20)
	q.queued(stranger, stranger)
	q.ahead(w1, 0)
	q.queued(stranger)
	q.ahead(w2, 1)
	q.ahead(stranger, 2)
}

// A waiter's requests reach the nodes in any order. By the stamp all nodes notify
// the same one; by the arrival each could notify another, and none gets a quorum.
func queueGoesByStamp(q *queueSuite) {
	last := q.waiter(q.far, 0)
	last.Stamp = 1 << 53
	before := last
	before.Waiter, before.Stamp = q.waiter(q.far, 0).Waiter, 1<<53-1
	w1, w2, w3 := q.waiter(q.near, 1), q.waiter(q.far, 2), q.waiter(q.near, 3)
	holder := q.holds()
	q.queued(last, w3, before, w1, w2)
	for _, next := range []waiter{w1, w2, w3, before, last} {
		q.releases(holder, next)
		holder = q.granted(next)
	}
}

// Two waits can begin in the same microsecond, and must not be in another order
// on another node. Waiters are compared as strings, byte by byte.
func equalStampsGoByWaiter(q *queueSuite) {
	q.holds()
	a, b, c := q.waiter(q.near, 5), q.waiter(q.near, 5), q.waiter(q.near, 5)
	for w, number := range map[*waiter]int{&a: 10_000, &b: 9_000, &c: 9_001} {
		w.Waiter = fmt.Sprintf("%s:%d", q.near.client, number+q.tries)
	}
	q.queued(c, a, b)
	q.ahead(a, 0)
	q.ahead(b, 1)
	q.ahead(c, 2)
}

// A waiter asks again every few seconds. It must neither be in the queue twice, and
// be notified when it has what it wanted, nor lose its place by asking.
func askingAgainKeepsThePlace(q *queueSuite) {
	q.holds()
	w1, w2 := q.waiter(q.near, 10), q.waiter(q.far, 20)
	q.queued(w1, w2, w1)
	w1.Stamp += 30
	q.queued(w1)
	q.ahead(w1, 0)
	q.ahead(w2, 1)
	q.ahead(waiter{}, 2)
}

// From the number before it a waiter knows when to look again. It counts those
// before, not itself, not those behind.
func aheadCountsThoseBefore(q *queueSuite) {
	q.holds()
	var all []waiter
	for i := range 12 {
		all = append(all, q.waiter([]*listener{q.near, q.far}[i%2], int64(i)))
		q.ahead(all[i], i)
	}
	for i, w := range all {
		q.ahead(w, i)
	}
	q.leaves(all[3])
	q.ahead(all[2], 2)
	q.ahead(all[11], 10)
	q.ahead(waiter{}, 11)
}

// A waiter that is notified for another lock than it waits for takes nothing, and
// the one who should have been notified is not.
func queuesNeverMix(q *queueSuite) {
	all, _ := sameStripe(q.name, 3)
	all = append(all, names...)
	holders, waiters := map[string]node.Request{}, map[string]waiter{}
	for _, q.name = range all {
		if q.tries > 1 && len(holders) >= 3 {
			break // the other names were used up by the first try
		}
		holders[q.name], waiters[q.name] = q.holdsAny(), q.waiter(q.near, int64(len(all)-len(holders)))
		q.ahead(waiters[q.name], 0)
	}
	for _, name := range all[:len(holders)] {
		q.name = name
		q.ahead(waiter{}, 1)
		q.releases(holders[name], waiters[name])
	}
}

// A waiter becomes a key, a channel or a row in some engines, and a stamp a
// double. What does not fit is refused before anything is done: the request may
// not count half.
func badPlaceChangesNothing(q *queueSuite) {
	const client = "0123456789abcdef0123456789abcdef"
	var bad []node.Place
	for _, w := range []string{" ", "1", client, client + ":", client + ":a", client + ":-1", client + ":1 ",
		client + ":1\n", client + ":1:a\n", client + ":1:\xff", client + ":1:" + strings.Repeat("x", node.MaxWaiterLabel+1),
		client + ":a:1",
		client + "::1", client[1:] + ":1", client + "0:1", strings.ToUpper(client) + ":1", "g" + client[1:] + ":1",
		client + ":" + strings.Repeat("1", 20)} {
		bad = append(bad, node.Place{Waiter: w, Stamp: 1}, node.Place{Waiter: w})
	}
	for _, stamp := range []int64{-1, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		bad = append(bad, node.Place{Waiter: client + ":1", Stamp: stamp})
	}
	refuse := func(op string, r node.Request, f func(context.Context, node.Request) (node.Answer, error)) {
		for _, r.Place = range bad {
			q.invalid(op+" with the place", r.Place)(f(q.ctx, r))
		}
	}
	refuse("acquire", request(q.name, "", 100), q.node.Acquire)
	q.free()
	holder := q.holds()
	refuse("acquire", request(q.name, "", 100), q.node.Acquire)
	refuse("release", holder, q.node.Release)
	q.ahead(waiter{}, 0)
	if l := q.inspect(q.node, q.name); l.Label != "holder" || l.Register < 7 || l.Register >= 100 {
		q.fail("afterwards: %+v", l)
	}
	// The largest of each is a place.
	q.queued(waiter{node.Place{Waiter: client + ":" + strings.Repeat("9", 19), Stamp: 1 << 53}, q.node})
	q.ahead(waiter{}, 1)
}

// A client becomes a part of them too. One that could have no waiters is a mistake.
func listenNeedsAClient(q *queueSuite) {
	const client = "0123456789abcdef0123456789abcdef"
	for _, bad := range []string{"", "a", "..", "../" + client[3:], client + ":1", client + "0", strings.ToUpper(client),
		strings.Repeat("*", 32)} {
		if err := q.node.Listen(q.ctx, bad, func(string) {}); !errors.Is(err, node.ErrInvalid) {
			q.failf(0, "listen as %q: %v; want ErrInvalid", bad, err)
		}
	}
}

// Clients' clocks do not agree. Waiters take their stamps from the nodes', which
// they see in the answers that refuse them.
func heldCarriesTheClock(q *queueSuite) {
	w := q.waiter(q.near, 10)
	last, began := time.Duration(0), time.Time{}
	step := func(who waiter, waited time.Duration) {
		a := q.refused(who)
		now := time.Now()
		if !began.IsZero() {
			passed := a.Clock - last
			// Stores whose clock counts in milliseconds round.
			if passed < 0 || passed < waited-2*time.Millisecond {
				q.failf(0, "the clock went from %v to %v while %v passed", last, a.Clock, waited)
			}
			// Not about speed: this is for a clock in another unit.
			if most := 100 * (now.Sub(began) + waited + time.Second/100); passed > most {
				q.failf(0, "the clock went from %v to %v; not even %v passed", last, a.Clock, most)
			}
		}
		last, began = a.Clock, now
	}
	holder := q.holds()
	for range 3 {
		for _, who := range []waiter{w, {}} {
			step(who, 0)
			q.wait(short)
			step(who, short)
		}
	}
	q.releases(holder)
	step(waiter{}, 0) // reserved for the waiter
}

// Waiters whose process was killed never leave. Their queue must not stay for ever,
// or a name that is used once and by them is never forgotten.
func queueIsForgotten(q *queueSuite) {
	q.holds()
	q.queued(q.waiter(q.near, 10), q.waiter(q.far, 20))
	q.wait(rule.QueueExpiry + short)
	q.ahead(waiter{}, 0)
	// And a new queue begins.
	w := q.waiter(q.near, 30)
	q.ahead(w, 0)
	q.ahead(waiter{}, 1)
}

// A waiter asks again, and has the queue remembered for all in it.
func queueIsRememberedWhileSomebodyAsks(q *queueSuite) {
	holder := q.holds()
	w1, w2 := q.waiter(q.near, 10), q.waiter(q.far, 20)
	q.queued(w1)
	for range 4 {
		q.wait(rule.QueueExpiry * 2 / 3)
		q.queued(w2)
	}
	q.ahead(waiter{}, 2)
	q.wait(rule.QueueExpiry * 2 / 3)
	q.releases(holder, w1)
}
