package memnode

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

var (
	// ErrDown is in the error of every operation between Crash and Restart.
	ErrDown = errors.New("the node is down")
	// ErrClosed is in the error of every operation after Close.
	ErrClosed = errors.New("the node is closed")
)

// Node is a node.Node, node.Queuer, node.Rejoiner, node.Admin and node.Examiner in memory. It is
// safe for concurrent use. Make one with New; the zero Node is not usable.
type Node struct {
	name      string
	store     *store
	admission *admit.Admission
	closed    atomic.Bool
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
)

// store is what the clients of a node share. The fields below mu are guarded by it.
type store struct {
	clock func() time.Duration

	mu sync.Mutex
	rule.Store
	listeners map[string][]listener // by client
	down      bool                  // crashed and not restarted
	restarted time.Duration
	empty     []string    // as in node.Registers
	terms     admit.Terms // since it was admitted after a restart
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
	n := (&Node{name: name, store: &store{
		clock:     func() time.Duration { return time.Since(start) },
		listeners: map[string][]listener{},
	}}).begin()
	for _, opt := range opts {
		opt(n)
	}
	return n
}

// begin makes what each client of a store has of its own.
func (n *Node) begin() *Node {
	n.admission = admit.New(n, admission{n}, 0) // to ask the store costs nothing
	return n
}

// Share returns a second client of the same store, as another process would have. It sees the same
// leases and the same crashes, and is joined and closed on its own.
func (n *Node) Share() *Node { return (&Node{name: n.name, store: n.store}).begin() }

// String returns the name.
func (n *Node) String() string { return n.name }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Location implements node.Located.
func (n *Node) Location() any { return n.store }

// Close makes every later operation of this client return an error, and its
// waiters unreachable. The store, and clients made by Share, go on. It always
// returns nil.
func (n *Node) Close() error {
	n.closed.Store(true)
	n.admission.Close()
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.store.unlisten(n)
	return nil
}

func (n *Node) errorf(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memnode %s: %s: %w", n.name, op, err)
}
