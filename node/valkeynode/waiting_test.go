package valkeynode_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

const queueKey = "fenlock-line:fenlock:orders"

// listening is a client that listens: a connection of its own, and what its waiters
// are notified of.
type listening struct {
	*valkeynode.Node
	t      *testing.T
	client string
	events chan string
}

// queueServer starts a server that is admitted, with so many clients. The identity of
// each is a digit, many times.
func queueServer(t *testing.T, kind testserver.Kind, clients int) (*testserver.Server, []*listening) {
	t.Helper()
	s := testserver.Start(t, kind)
	s.MarkAdmitted("fenlock:", time.Hour)
	var all []*listening
	for i := range clients {
		n, digit := joined(t, s.URL(), time.Hour), string(rune('a'+i))
		events := subscribed(t, n, digit)
		all = append(all, &listening{Node: n, t: t, client: strings.Repeat(digit, 32), events: events})
	}
	return s, all
}

func (p *listening) waiter(number int) string { return fmt.Sprintf("%s:%d", p.client, number) }

func (p *listening) request(number, stamp int) node.Request {
	r := long("orders", fmt.Sprintf("%s%d", p.client[:1], number))
	r.Place = node.Place{Waiter: p.waiter(number), Stamp: int64(stamp)}
	return r
}

// refused asks, and checks how many are ahead.
func (p *listening) refused(number, stamp, ahead int) {
	p.t.Helper()
	if a := acquire(p.t, p.Node, p.request(number, stamp)); a.Status != node.Held || a.Ahead != ahead {
		p.t.Fatalf("waiter %s%d: %+v, want it held with %d ahead", p.client[:1], number, a, ahead)
	}
}

// granted asks, and wants the name.
func (p *listening) granted(number, stamp int) {
	p.t.Helper()
	if a := acquire(p.t, p.Node, p.request(number, stamp)); a.Status != node.Granted {
		p.t.Fatalf("waiter %s%d: %+v, want it granted", p.client[:1], number, a)
	}
}

// hold acquires the name for no waiter.
func (p *listening) hold() node.Request {
	p.t.Helper()
	r := p.request(0, 0)
	r.Place = node.Place{}
	want(p.t, node.Granted)(acquire(p.t, p.Node, r), nil)
	return r
}

// release ends what a request asked for, without a place.
func (p *listening) release(r node.Request) {
	p.t.Helper()
	r.Place = node.Place{}
	p.released(r, node.Granted)
}

func (p *listening) released(r node.Request, status node.Status) {
	p.t.Helper()
	want(p.t, status)(p.Do(bounded(p.t), as(node.Release, r)))
}

// notified waits for the next event.
func (p *listening) notified(want string) {
	p.t.Helper()
	if got := next(p.t, p.events); got != want {
		p.t.Fatalf("client %s: event %q, want %q", p.client[:1], got, want)
	}
}

// silent checks that no waiter of a client was notified. A notification is sent before the answer
// to the request that causes it; that of another client may be read later, so each client's
// connection is asked something first.
func silent(t *testing.T, all ...*listening) {
	t.Helper()
	for _, p := range all {
		if _, err := p.Inspect(bounded(t), "orders"); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-p.events:
			t.Fatalf("client %s: event %q, want none", p.client[:1], got)
		default:
		}
	}
}

// noTrace checks that only the registers are left on the server.
func noTrace(t *testing.T, s *testserver.Server) {
	t.Helper()
	if keys := s.Do("KEYS", "*"); keys != "[fenlock-registers:fenlock:]" {
		t.Fatalf("left behind: %s", keys)
	}
}
