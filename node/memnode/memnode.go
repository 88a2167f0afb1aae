// Package memnode is a node in the memory of one process: for tests, for
// examples, and for reading how a node behaves without any server in the way.
// It locks nothing between processes.
//
// It has a clock of its own, so that a test can let a lease expire without
// waiting, and it can lose its memory the way a server does that is killed and
// started again (Crash, Restart). There is no goroutine in it.
package memnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

var (
	// ErrDown is in the error of every operation between Crash and Restart.
	ErrDown = errors.New("the node is down")
	// ErrClosed is in the error of every operation after Close.
	ErrClosed = errors.New("the node is closed")
)

// Node is a node.Node, node.Queuer, node.Rejoiner and node.Admin in memory. It is
// safe for concurrent use. Make one with New; the zero Node is not usable.
type Node struct {
	name   string
	store  *store
	closed atomic.Bool
	group  atomic.Pointer[node.Group]
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
)

// store is what the clients of a node share. The fields below mu are guarded by it.
type store struct {
	clock func() time.Duration

	mu sync.Mutex
	rule.Store
	listeners map[string][]listener // by client
	down      bool                  // crashed and not restarted
	restarted time.Duration
	empty     []string // as in node.Registers
}

// Option changes a new node.
type Option func(*Node)

// WithClock makes the node count time by now, which may start anywhere but must
// never go back. It is called from any goroutine that calls the node, and must
// not call the node itself. Without it the clock is the time since New, on
// Go's monotonic clock (inside a testing/synctest bubble: the bubble's).
func WithClock(now func() time.Duration) Option {
	return func(n *Node) { n.store.clock = now }
}

// New returns an empty node that is up and admitted. The name is what String
// returns and errors begin with.
func New(name string, opts ...Option) *Node {
	start := time.Now()
	n := &Node{name: name, store: &store{
		clock:     func() time.Duration { return time.Since(start) },
		listeners: map[string][]listener{},
	}}
	for _, opt := range opts {
		opt(n)
	}
	return n
}

// Share returns a second client of the same store, as another process would
// have: it sees the same leases and the same crashes, and is joined and closed
// on its own.
func (n *Node) Share() *Node { return &Node{name: n.name, store: n.store} }

// String returns the name.
func (n *Node) String() string { return n.name }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Do implements node.Node. Whoever is notified is told after it, in the same goroutine.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.Check(r); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	n.tryRejoin(ctx)
	if err := n.enter(ctx); err != nil {
		return node.Answer{}, n.errorf(r.Op.String(), err)
	}
	s := n.store
	now := s.clock()
	o := s.Begin(r.Name, now, func(waiter string) bool { return len(s.listenersOf(waiter)) > 0 })
	a, notify := rule.Serve(&o.Entry, o, now, r)
	o.Commit()
	if a.Status == node.Rejoining {
		a.Detail = n.outSince(now)
	}
	tell := s.listenersOf(notify)
	s.mu.Unlock()
	for _, l := range tell {
		l.notify(notify)
	}
	return a, nil
}

// Inspect implements node.Admin. A node that is not admitted shows what it has.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	n.tryRejoin(ctx)
	if err := n.enter(ctx); err != nil {
		return node.Lease{}, n.errorf("inspect", err)
	}
	defer n.store.mu.Unlock()
	return n.store.Lease(name, n.store.clock()), nil
}

// List implements node.Admin, in the order of the names. It works on a copy,
// so that yield may call the node.
func (n *Node) List(ctx context.Context, yield func(node.Lease) bool) error {
	if err := n.enter(ctx); err != nil {
		return n.errorf("list", err)
	}
	all := n.store.All(n.store.clock())
	n.store.mu.Unlock()
	for _, l := range all {
		if err := ctx.Err(); err != nil {
			return n.errorf("list", err)
		}
		if !yield(l) {
			break
		}
	}
	return nil
}

// Close makes every later operation of this client return an error, and its
// waiters unreachable. The store, and clients made by Share, go on. It always
// returns nil.
func (n *Node) Close() error {
	n.closed.Store(true)
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.store.unlisten(n)
	return nil
}

// enter locks the store, or says why the operation must not be executed.
func (n *Node) enter(ctx context.Context) error {
	if n.closed.Load() {
		return ErrClosed
	}
	n.store.mu.Lock()
	err := ctx.Err()
	if n.store.down {
		err = ErrDown
	}
	if err != nil {
		n.store.mu.Unlock()
	}
	return err
}

func (n *Node) errorf(op string, err error) error {
	return fmt.Errorf("memnode %s: %s: %w", n.name, op, err)
}
