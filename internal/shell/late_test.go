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

// answers gives the answer to the first request.
func (p *byHand) answers(a node.Answer) { p.done(a, nil) }

// done ends the first request.
func (p *byHand) done(a node.Answer, err error) {
	p.mu.Lock()
	call := p.calls[0]
	p.mu.Unlock()
	call.Done(a, err)
}

func (p *byHand) Listen(string, time.Duration, func(string), func(error)) {}

// An answer of a node whose time is up comes just before the time of another one is, and decides an
// adoption.
func TestLateAnswerDecidesAnAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []*byHand{{}, {}, {}}
		var peers []Peer
		for _, n := range nodes {
			peers = append(peers, n)
		}
		accepts := func(n int) { nodes[n].answers(node.Answer{Status: node.Granted, Register: 7}) }
		began := time.Now()
		late := false
		c := NewClient(Config{Env: &bubbleEnv{began, time.Hour}, Peers: peers, Terms: Terms{TTL: 8 * time.Second},
			NodeTimeout: time.Second,
			Stopwatch:   func() time.Duration { return time.Since(began) },
			Answered: func(peer int, op node.Op, _ node.Answer, err error, _ time.Duration) {
				if peer == 1 && op == core.Extend && err != nil && !late {
					late = true
					accepts(0)
				}
			}})
		o := newOnceOwner(t)
		var a Acquisition
		c.Adopt(&a, context.Background(), "orders", &Exported{Holder: "holder", Token: 7, Mark: 7, Terms: c.Terms()}, o)
		accepts(2)
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
		nodes := []*byHand{{}, {}, {}}
		var peers []Peer
		for _, n := range nodes {
			peers = append(peers, n)
		}
		grants := func(n int) { nodes[n].answers(node.Answer{Status: node.Granted, Register: 7}) }
		began := time.Now()
		c := NewClient(Config{Env: &bubbleEnv{began, time.Hour}, Peers: peers, Terms: Terms{TTL: 8 * time.Second},
			NodeTimeout: time.Second,
			Stopwatch:   func() time.Duration { return time.Since(began) },
			Answered: func(peer int, op node.Op, _ node.Answer, err error, _ time.Duration) {
				if peer == 0 && op == node.Acquire && err != nil {
					grants(0) // the attempt has not heard yet that its time is up
				}
			}})
		o := newOnceOwner(t)
		var a Acquisition
		c.Acquire(&a, context.Background(), "orders", c.Terms(), o)
		grants(2)
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
		nodes := []*byHand{{}, {}, {}}
		var peers []Peer
		for _, n := range nodes {
			peers = append(peers, n)
		}
		began := time.Now()
		c := NewClient(Config{Env: &bubbleEnv{began, time.Hour}, Peers: peers, Terms: Terms{TTL: 8 * time.Second},
			NodeTimeout: time.Second,
			Stopwatch:   func() time.Duration { return time.Since(began) },
			Answered: func(peer int, op node.Op, _ node.Answer, _ error, _ time.Duration) {
				if op == node.Acquire { // the attempt has not heard yet that its time is up
					nodes[peer].done(node.Answer{}, node.NotSent(context.DeadlineExceeded))
				}
			}})
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
