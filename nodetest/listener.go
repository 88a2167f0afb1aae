package nodetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// listener is a client that listens on a node.
type listener struct {
	client string
	node   *watched

	mu     sync.Mutex
	events []string
	missed int // how often the event was ""
	more   chan struct{}
}

func (q *queueSuite) listen(n *watched) *listener {
	e := &listener{client: identity(), node: n, more: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(q.ctx, time.Minute)
	defer cancel()
	if err := n.Listen(ctx, e.client, e.event); err != nil {
		q.Fatalf("listen: %v", err)
	}
	return e
}

func (e *listener) event(waiter string) {
	e.mu.Lock()
	if waiter == "" {
		e.missed++
	} else {
		e.events = append(e.events, unlabelled(waiter))
	}
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// unlabelled is a waiter without its label: an engine need not tell that.
func unlabelled(waiter string) string {
	client, rest, _ := strings.Cut(waiter, ":")
	number, _, _ := strings.Cut(rest, ":")
	return client + ":" + number
}

// heard checks that these waiters and no others of this try have been notified
// since the last check, once each. Whether a notification is still under way shows when a
// later one arrives: one that is made for the purpose.
func (q *queueSuite) heard(want ...waiter) {
	spent := q.spent()
	for _, e := range []*listener{q.near, q.far} {
		if e.node.closed.Load() {
			continue
		}
		var expected []string
		for _, w := range want {
			if strings.HasPrefix(w.Waiter, e.client) {
				expected = append(expected, unlabelled(w.Waiter))
			}
		}
		sentinel := q.notify(e)
		slices.Sort(expected)
		if got := q.take(e, append(expected, sentinel)); !slices.Equal(got, expected) {
			q.failf(spent, "notified: %v; want %v", got, expected)
		}
	}
}

// notify has a waiter notified that waits for a name of its own.
func (q *queueSuite) notify(e *listener) string {
	q.numbers++
	r := request(fmt.Sprint("notified ", q.numbers), "", 0)
	q.want(node.Granted)(e.node.Acquire(q.ctx, r))
	w := request(r.Name, "", 0)
	w.Place = node.Place{Waiter: fmt.Sprintf("%s:%d", e.client, q.numbers), Stamp: 1}
	q.want(node.Held)(e.node.Acquire(q.ctx, w))
	q.want(node.Granted)(e.node.Release(q.ctx, r))
	return w.Place.Waiter
}

// take returns the waiters of this try that were notified, sorted, once all of the
// expected were. The last of these is not of this try.
func (q *queueSuite) take(e *listener, expected []string) (got []string) {
	deadline := time.NewTimer(q.patience)
	defer deadline.Stop()
	for {
		e.mu.Lock()
		missing := slices.ContainsFunc(expected, func(w string) bool { return !slices.Contains(e.events, w) })
		events := e.events
		if !missing {
			e.events = nil
		}
		e.mu.Unlock()
		if !missing {
			for _, w := range events {
				if q.current[w] || !strings.HasPrefix(w, e.client+":") {
					got = append(got, w)
				}
			}
			slices.Sort(got)
			return got
		}
		select {
		case <-e.more:
		case <-deadline.C:
			q.failf(0, "notified: %v; want %v", events, expected)
		}
	}
}
