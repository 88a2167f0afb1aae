package fenlock_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/memnode"
)

// A configuration whose numbers the tests can state: the defaults.
const (
	ttl         = 10 * time.Second
	nodeTimeout = 500 * time.Millisecond
	drift       = 102 * time.Millisecond // 1 % of the TTL and 2 ms
	validity    = ttl - drift
)

const name = "orders/42"

// The operations of a node, as the keys of faults. allOps stands for all of them.
const (
	allOps  = ""
	acquire = "acquire"
	extend  = "extend"
	release = "release"
)

// fault is how requests to a node go wrong. The zero fault is none.
type fault struct {
	err     error         // the answer, at once; nothing is executed
	hang    bool          // nothing is executed, and no answer comes
	request time.Duration // the way to the node; it is executed then, even if the caller has gone
	reply   time.Duration // the way back
	lost    bool          // executed, but the answer never comes
}

var errDown = errors.New("connection refused")

// down is the fault of a server that is not running.
var down = fault{err: errDown}

// call is a request that was made, whatever became of it.
type call struct {
	op string
	at time.Duration // since the node was made
}

// faulty is a memnode behind a network that loses and delays.
type faulty struct {
	*memnode.Node
	view  *memnode.Node // another client of the same store: it goes on after Close
	start time.Time

	mu     sync.Mutex
	faults map[string]fault
	calls  []call
	// call is what becomes of a call to a waiter: nil is that it arrives.
	call   func(event func())
	events []func(waiter string) // of those who listen
	mute   error                 // why the node cannot notify waiters
	stuck  chan struct{}         // what Listen waits for
	forge  func(node.Answer) node.Answer
	// event is called when a request was sent, executed and answered.
	event func()
	// seen is called with each request.
	seen func(node.Request)
}

// plainNode hides the methods with which a memnode would join a group. A node that restarts is
// admitted when the test says so, and not before.
type plainNode struct{ node.Node }

func (*plainNode) Engine() any { return nil }

func (f *faulty) node() node.Node { return &plainNode{f} }

// queuerNode is a plainNode that keeps queues.
type queuerNode struct{ *faulty }

func (q queuerNode) Engine() any {
	return struct {
		node.Queuer
		node.Sharer
	}{q.faulty, q.faulty.Node}
}

func (f *faulty) queuer() node.Node { return queuerNode{f} }

func (f *faulty) Listen(ctx context.Context, client string, event func(waiter string)) error {
	f.mu.Lock()
	f.events = append(f.events, event)
	mute, stuck := f.mute, f.stuck
	f.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	if mute != nil {
		return mute
	}
	return f.Node.Listen(ctx, client, func(waiter string) {
		f.mu.Lock()
		call := f.call
		f.mu.Unlock()
		if call == nil {
			event(waiter)
		} else {
			call(func() { event(waiter) })
		}
	})
}

func (f *faulty) set(op string, to fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[op] = to
}

// heal removes all faults.
func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
}

// times returns when the requests of one kind were made, allOps for all.
func (f *faulty) times(op string) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var at []time.Duration
	for _, c := range f.calls {
		if op == allOps || c.op == op {
			at = append(at, c.at)
		}
	}
	return at
}

func (f *faulty) do(ctx context.Context, op string, r node.Request) (node.Answer, error) {
	f.mu.Lock()
	f.calls = append(f.calls, call{op, time.Since(f.start)})
	if f.seen != nil {
		f.seen(r)
	}
	how, ok := f.faults[op]
	if !ok {
		how = f.faults[allOps]
	}
	event := f.event
	f.mu.Unlock()
	if event == nil {
		event = func() {}
	}
	switch {
	case how.err != nil:
		return node.Answer{}, how.err
	case how.hang:
		<-ctx.Done()
		return node.Answer{}, ctx.Err()
	case how == fault{}:
		event()
		defer event()
		return f.Node.Do(ctx, r)
	}
	type result struct {
		answer node.Answer
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		event()
		time.Sleep(how.request)
		answer, err := f.Node.Do(context.WithoutCancel(ctx), r)
		event()
		if !how.lost {
			time.Sleep(how.reply)
			answered <- result{answer, err}
		}
	}()
	select {
	case r := <-answered:
		event()
		return r.answer, r.err
	case <-ctx.Done():
		return node.Answer{}, ctx.Err()
	}
}

func (f *faulty) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	a, err := f.do(ctx, r.Op.String(), r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forge != nil && err == nil && r.Op == node.Acquire {
		a = f.forge(a)
	}
	return a, err
}

// ordered is a node.Ordered that is a function. Without all of its methods it would be
// asked by Do, and no test would tell.
type ordered struct {
	fenlock.Node
	start func(node.Request, node.Call)
}

var _ node.Ordered = ordered{}

func (ordered) InOrder() bool                                           { return true }
func (o ordered) Start(r node.Request, _ time.Duration, call node.Call) { o.start(r, call) }

// grant answers a call.
func grant(r node.Request, call node.Call) {
	call.Done(node.Answer{Status: node.Granted, Register: r.Token}, nil)
}
