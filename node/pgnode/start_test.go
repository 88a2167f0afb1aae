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
	n.db.SetMaxOpenConns(1) // so that it has prepared what it sends
	known(t, n, "held")
	if held = as(node.Acquire, request("held", 0)); !n.fast() || !n.usual(held) {
		t.Fatal("the test tests nothing: no worker carries it out")
	}
	want(t, node.Granted)(start(t, n, held, patience).wait())
	return n, sees, held, relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
}

// untilReleased waits until "held" was released.
func untilReleased(t *testing.T, sees *Node) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if l, err := sees.Inspect(t.Context(), "held"); err != nil || time.Now().After(end) {
			t.Fatal("it was not released", err)
		} else if !l.Leased {
			return
		}
	}
}

// The outcome of what was sent to a server that is silent is unknown. A queued request is not sent
// after its timeout, nor when it is not wanted any more.
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

// wantedOnce is not wanted any more when the node asks again.
type wantedOnce struct {
	*started
	asked atomic.Bool
}

func (c *wantedOnce) Wanted() bool { return !c.asked.Swap(true) }

// A request on the slow path may stop being wanted while it waits for a connection.
func TestUnwantedOnTheSlowPath(t *testing.T) {
	t.Parallel()
	u := newSchema(t, shared())
	sees := alone(t, u)
	want(t, node.Granted)(sees.Do(t.Context(), as(node.Acquire, request("held", 0))))
	c := &wantedOnce{started: &started{t: t, done: make(chan struct{})}}
	alone(t, u).Start(as(node.Acquire, request("unwanted", 0)), patience, c) // the first one makes a connection
	if _, err := c.wait(); !errors.Is(err, node.ErrNotSent) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if l, err := sees.Inspect(t.Context(), "unwanted"); err != nil || l.Register != 0 {
		t.Errorf("it was carried out: %+v, %v", l, err)
	}
}

// Close ends what a worker waits for, and what is queued.
func TestCloseEndsWhatWasStarted(t *testing.T) {
	t.Parallel()
	n, sees, held, lift := silenced(t)
	defer lift()
	n.workers.most = 1
	sent := start(t, n, as(node.Release, held), time.Hour)
	untilReleased(t, sees)
	var queued []*started
	for i := range 3 {
		queued = append(queued, start(t, n, as(node.Acquire, request(fmt.Sprint("queued", i), 0)), time.Hour))
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := sent.wait(); err == nil || errors.Is(err, node.ErrNotSent) {
		t.Errorf("a release that was sent: %v", err)
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
	untilReleased(t, sees)
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

// Requests that are sent together are transactions of their own. A usual statement that finds
// nothing, a refusal and an error concern no other request.
func TestSentTogether(t *testing.T) {
	t.Parallel()
	n := alone(t, newSchema(t, shared()))
	n.swept.Store(time.Now().UnixMilli())
	for _, name := range []string{"a", "b", "c", "d"} {
		known(t, n, name)
	}
	fails := `CREATE FUNCTION fenlock.fails() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.name = 'b' THEN RAISE 'it fails'; END IF; RETURN NEW; END $$;
		CREATE CONSTRAINT TRIGGER fails AFTER UPDATE ON fenlock.current DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION fenlock.fails()`
	if _, err := n.db.Exec(inSchema(fails, n.schema)); err != nil {
		t.Fatal(err)
	}
	held := request("c", 0)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, held)))
	n.contended[node.Stripe("c")].Store(false)
	var batch []job
	add := func(r node.Request) *started {
		c := &started{t: t, done: make(chan struct{})}
		batch = append(batch, &flight{n: n, r: r, until: time.Now().Add(patience), call: c})
		return c
	}
	granted := add(as(node.Acquire, request("a", 0)))
	failed := add(as(node.Acquire, request("b", 0))) // its commit does
	unwanted := add(as(node.Acquire, request("d", 0)))
	unwanted.gone.Store(true)
	refused := add(as(node.Acquire, request("c", 0)))
	extended := add(as(node.Extend, held))
	made := add(as(node.Acquire, request("new", 0)))
	w := newWorker(n.closing)
	defer w.end()
	batch[0].carry(w, batch)
	for _, f := range batch {
		f.tell(w)
	}
	for c, status := range map[*started]node.Status{granted: node.Granted, refused: node.Held, extended: node.Granted,
		made: node.Granted} {
		want(t, status)(c.wait())
	}
	if _, err := failed.wait(); err == nil || !strings.Contains(err.Error(), "it fails") ||
		!errors.Is(err, node.ErrNotSent) {
		t.Errorf("a commit that fails: %v", err)
	}
	if _, err := unwanted.wait(); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("what is not wanted: %v", err)
	}
	for name, leased := range map[string]bool{"a": true, "b": false, "c": true, "d": false, "new": true} {
		if l, err := n.Inspect(t.Context(), name); err != nil || l.Leased != leased {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}
