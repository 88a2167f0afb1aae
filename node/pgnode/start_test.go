package pgnode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// started is the call of a request that was started.
type started struct {
	t    *testing.T
	gone atomic.Bool // it is not wanted any more
	a    node.Answer
	err  error
	once atomic.Int32
	done chan struct{}
}

func start(t *testing.T, n *Node, r node.Request, timeout time.Duration) *started {
	c := &started{t: t, done: make(chan struct{})}
	n.Start(r, timeout, c)
	return c
}

func (c *started) Wanted() bool { return !c.gone.Load() }

func (c *started) Done(a node.Answer, err error) {
	if c.once.Add(1) > 1 {
		c.t.Error("a request has two outcomes")
		return
	}
	c.a, c.err = a, err
	close(c.done)
}

func (c *started) wait() (node.Answer, error) {
	c.t.Helper()
	select {
	case <-c.done:
		return c.a, c.err
	case <-time.After(patience):
		return node.Answer{}, errors.New("a request has no outcome")
	}
}

// silenced makes a node that has taken "held" by a worker. Then the server is silent to it.
func silenced(t *testing.T) (n, sees *Node, held node.Request, lift func()) {
	server := testserver.StartPostgres(t)
	u := newSchema(t, server)
	relay, through := through(t, server, u)
	sees, n = alone(t, u), unpinged(t, through)
	for _, of := range []*Node{sees, n} {
		of.swept.Store(time.Now().UnixMilli()) // nothing else uses its connections
	}
	known(t, n, "held")
	if held = as(node.Acquire, request("held", 0)); !n.fast() || !n.usual(held) {
		t.Fatal("the test tests nothing: no worker carries it out")
	}
	want(t, node.Granted)(start(t, n, held, patience).wait())
	return n, sees, held, relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
}

// Of requests to a server that is silent, those that were sent are unknown, and the others are not
// sent: neither after their timeout, nor when they are not wanted any more.
func TestStartedAndUnanswered(t *testing.T) {
	t.Parallel()
	n, sees, held, lift := silenced(t)
	n.workers.most = 1 // what comes later is queued
	sent := start(t, n, as(node.Release, held), time.Second)
	late := start(t, n, as(node.Acquire, request("late", 0)), time.Second)
	unwanted := start(t, n, as(node.Acquire, request("unwanted", 0)), time.Hour)
	unwanted.gone.Store(true)
	if _, err := sent.wait(); err == nil || errors.Is(err, node.ErrNotSent) {
		t.Errorf("a release that was sent: %v", err)
	}
	for what, c := range map[string]*started{"late": late, "unwanted": unwanted} {
		if _, err := c.wait(); !errors.Is(err, node.ErrNotSent) {
			t.Errorf("%s: %v", what, err)
		}
		if l, err := sees.Inspect(t.Context(), what); err != nil || l.Register != 0 {
			t.Errorf("%s was carried out: %+v, %v", what, l, err)
		}
	}
	lift()
	want(t, node.Granted)(sees.Do(t.Context(), as(node.Acquire, request("held", 0))))
	want(t, node.Granted)(start(t, n, as(node.Acquire, request("after", 0)), patience).wait())
}

// Close ends what a worker waits for, and what is queued.
func TestCloseEndsWhatWasStarted(t *testing.T) {
	t.Parallel()
	n, _, held, lift := silenced(t)
	defer lift()
	n.workers.most = 1
	sent := start(t, n, as(node.Release, held), time.Hour)
	var queued []*started
	for i := range 3 {
		queued = append(queued, start(t, n, as(node.Acquire, request(fmt.Sprint("queued", i), 0)), time.Hour))
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := sent.wait(); err == nil {
		t.Error("a release without an answer succeeded")
	}
	for _, c := range append(queued, start(t, n, held, time.Hour)) {
		if _, err := c.wait(); !errors.Is(err, node.ErrNotSent) || !strings.Contains(err.Error(), "closed") {
			t.Errorf("after Close: %v", err)
		}
	}
}

// A Do that is given up frees its connection two seconds later, though its context had no deadline.
func TestGivenUpFreesItsConnection(t *testing.T) {
	t.Parallel()
	n, sees, held, lift := silenced(t)
	defer lift()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := n.Do(ctx, as(node.Release, held))
		done <- err
	}()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // until it was sent
		if l, err := sees.Inspect(t.Context(), "held"); err != nil || time.Now().After(end) {
			t.Fatal("it was not carried out", err)
		} else if !l.Leased {
			break
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, node.ErrNotSent) {
		t.Error(err)
	}
	for end := time.Now().Add(patience); n.db.Stats().InUse > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection is not given back")
		}
	}
}

// More requests than connections are queued, and carried out once each.
func TestManyStarted(t *testing.T) {
	t.Parallel()
	n := alone(t, newSchema(t, shared()))
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("first", 0))))
	var all sync.WaitGroup
	for i := range 20 * maxConnections {
		all.Go(func() {
			r := request(fmt.Sprint("many", i), 0)
			for range 3 {
				for _, step := range []struct {
					r      node.Request
					status node.Status
				}{
					{as(node.Acquire, r), node.Granted},
					{as(node.Acquire, request(r.Name, 0)), node.Held},
					{as(node.Extend, r), node.Granted},
					{as(node.Release, r), node.Granted},
				} {
					if a, err := start(t, n, step.r, patience).wait(); err != nil || a.Status != step.status {
						t.Errorf("%v: %+v, %v", step.r.Op, a, err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if made := len(n.workers.all); made > maxConnections {
		t.Errorf("%d workers", made)
	}
}
