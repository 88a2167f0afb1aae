package shell

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// byHand is a node whose answers a test gives.
type byHand struct {
	mu    sync.Mutex
	calls []node.Call
}

func (p *byHand) InOrder() bool { return false }
func (p *byHand) Queues() bool  { return false }
func (p *byHand) Start(_ context.Context, _ node.Request, _ time.Duration, call node.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

// grants has the first request granted.
func (p *byHand) grants() { p.done(node.Answer{Status: node.Granted, Register: 7}, nil) }

// last returns the last request.
func (p *byHand) last() node.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[len(p.calls)-1]
}

// done ends the first request.
func (p *byHand) done(a node.Answer, err error) {
	p.mu.Lock()
	call := p.calls[0]
	p.mu.Unlock()
	call.Done(a, err)
}

func (p *byHand) Listen(string, time.Duration, func(string), func(error)) {}

// byHands returns three such nodes, and a client of them. Answered is called for each request that
// was answered, or whose time is up.
func byHands(answered func(nodes []*byHand, peer int, op node.Op, err error)) (nodes []*byHand, c *Client) {
	began := time.Now()
	nodes = []*byHand{{}, {}, {}}
	config := Config{Env: &bubbleEnv{began, time.Hour}, Terms: Terms{TTL: 8 * time.Second}, NodeTimeout: time.Second,
		Stopwatch: func() time.Duration { return time.Since(began) },
		Answered: func(peer int, op node.Op, _ node.Answer, err error, _ time.Duration) {
			answered(nodes, peer, op, err)
		}}
	for _, n := range nodes {
		config.Peers = append(config.Peers, n)
	}
	return nodes, NewClient(config)
}

// An answer of a node whose time is up comes just before the time of another one is, and decides an
// adoption.
func TestLateAnswerDecidesAnAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := false
		nodes, c := byHands(func(nodes []*byHand, peer int, op node.Op, err error) {
			if peer == 1 && op == core.Extend && err != nil && !late {
				late = true
				nodes[0].grants()
			}
		})
		o := newOnceOwner(t)
		var a Acquisition
		c.Adopt(&a, context.Background(), "orders", &Exported{Holder: "holder", Token: 7, Mark: 7, Terms: c.Terms()}, o)
		nodes[2].grants()
		if f := <-o.over; f.Failed() || !late {
			t.Errorf("late %v: %+v", late, f)
		}
		if left := a.Lock().Remaining(); left != core.Validity(0, 8*time.Second)-time.Second {
			t.Errorf("%v are left", left)
		}
		a.Lock().Release(false)
		time.Sleep(time.Hour)
	})
}

// The answer of a node comes at the moment at which its time is up. It counts, and the attempt does
// not wait for it for ever.
func TestAnswersAtTheEndOfTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		nodes, c := byHands(func(nodes []*byHand, peer int, op node.Op, err error) {
			if peer == 0 && op == node.Acquire && err != nil {
				nodes[0].grants() // the attempt has not heard yet that its time is up
			}
		})
		o := newOnceOwner(t)
		var a Acquisition
		c.Acquire(&a, context.Background(), "orders", c.Terms(), o)
		nodes[2].grants()
		gaveUp := time.AfterFunc(time.Minute, a.Cancel)
		if f := <-o.over; f.Failed() || time.Since(began) != time.Second {
			t.Errorf("after %v: %+v", time.Since(began), f)
		}
		gaveUp.Stop()
		a.Lock().Release(false)
		time.Sleep(time.Hour)
	})
}

// The word that a request was not sent comes at the moment at which the time of its node is up. The
// error names the node all the same.
func TestUnsentAtTheEndOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := byHands(func(nodes []*byHand, peer int, op node.Op, _ error) {
			if op == node.Acquire { // the attempt has not heard yet that its time is up
				nodes[peer].done(node.Answer{}, node.NotSent(context.DeadlineExceeded))
			}
		})
		o := newOnceOwner(t)
		var a Acquisition
		c.TryAcquire(&a, context.Background(), "orders", c.Terms(), o)
		f := <-o.over
		if len(f.Nodes) < 2 {
			t.Errorf("%+v", f)
		}
		for _, n := range f.Nodes {
			if errors.Is(n.Err, context.DeadlineExceeded) {
				t.Errorf("%v may be taken for the caller's own", n.Err)
			}
		}
		time.Sleep(time.Hour)
	})
}

// A request whose time is up is not to be sent any more, unless its caller waits for late answers,
// and the attempt goes on.
func TestWhatIsLateIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, c := byHands(func([]*byHand, int, node.Op, error) {})
		for i, acquire := range []func(*Acquisition, context.Context, string, Terms, Owner){c.TryAcquire, c.Acquire} {
			var a Acquisition
			acquire(&a, context.Background(), "orders", c.Terms(), newOnceOwner(t))
			call := nodes[0].last()
			time.Sleep(999 * time.Millisecond)
			early := call.Wanted()
			time.Sleep(2 * time.Millisecond)
			if late := call.Wanted(); !early || late != (i == 1) {
				t.Errorf("wanted at first: %v, after the node timeout: %v", early, late)
			}
			a.Cancel()
			time.Sleep(time.Minute)
			if call.Wanted() {
				t.Error("wanted when the attempt is over")
			}
		}
	})
}
