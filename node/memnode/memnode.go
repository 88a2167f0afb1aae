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
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
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

	mu        sync.Mutex
	leases    map[string]lease
	registers map[int]fence.Token
	lines     map[string]queue
	listeners map[string][]listener // by client
	sweepAt   int                   // number of leases and lines that starts the next sweep
	down      bool                  // crashed and not restarted
	out       bool                  // restarted and not admitted
	restarted time.Duration
	empty     []string // as in node.Registers
}

type lease struct {
	holder  node.Holder
	expires time.Duration
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
		leases:    map[string]lease{},
		registers: map[int]fence.Token{},
		lines:     map[string]queue{},
		listeners: map[string][]listener{},
		sweepAt:   firstSweep,
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

// Do implements node.Node.
func (n *Node) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := rule.Check(r); err != nil {
		return n.fail(r.Op.String(), err)
	}
	return n.do(ctx, r.Op.String(), r.Name, func(v *visit) rule.Reply {
		reply, called := v.carryOut(r)
		v.called = called
		return reply
	})
}

func (v *visit) carryOut(r node.Request) (reply rule.Reply, called string) {
	switch r.Op {
	case node.Acquire:
		v.asked, v.waiter = r.Place.Waiter != "", r.Place.Waiter
		return rule.AcquireInLine(&v.entry, &v.line, v.now, r.Place, v.reachable,
			func(e *rule.Entry) rule.Reply {
				return rule.Acquire(e, v.now, r.Holder, r.TTL.Truncate(time.Millisecond), r.Token)
			})
	case node.Confirm:
		return rule.Confirm(&v.entry, v.now, r.Holder, r.Token), ""
	case node.Extend:
		return rule.Extend(&v.entry, v.now, r.Holder, r.TTL.Truncate(time.Millisecond), r.Token), ""
	case node.Release:
		v.asked = r.Place.Waiter != "" && r.Place.Stamp != 0
		return rule.ReleaseInLine(&v.entry, &v.line, v.now, r.Holder, r.Place, v.reachable)
	}
	return rule.ForceReleaseInLine(&v.entry, &v.line, v.now, v.reachable,
		func(e *rule.Entry) rule.Reply { return rule.ForceRelease(e, v.now, r.Token) })
}

// Inspect implements node.Node. A node that is not admitted shows what it has.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	found := node.Lease{Name: name}
	_, err := n.do(ctx, "inspect", name, func(v *visit) rule.Reply {
		found.Register = v.entry.Register
		if v.entry.Leased(v.now) {
			found.Label, found.Remaining = v.entry.Holder.Label(), v.entry.Expires-v.now
		}
		return rule.Reply{}
	})
	return found, err
}

// List implements node.Node, in the order of the names. It works on a copy,
// so that yield may call the node.
func (n *Node) List(ctx context.Context, yield func(node.Lease) bool) error {
	if err := n.enter(ctx); err != nil {
		return n.errorf("list", err)
	}
	var all []node.Lease
	now := n.store.clock()
	for name, l := range n.store.leases {
		if now < l.expires {
			all = append(all, node.Lease{Name: name, Label: l.holder.Label(),
				Remaining: l.expires - now, Register: n.store.registers[node.Stripe(name)]})
		}
	}
	n.store.mu.Unlock()
	slices.SortFunc(all, func(a, b node.Lease) int { return strings.Compare(a.Name, b.Name) })
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

// visit is what an operation works on: all that the store has about a name.
type visit struct {
	now       time.Duration
	entry     rule.Entry
	line      rule.Line
	reachable func(waiter string) bool

	asked  bool   // the line is kept for longer
	waiter string // who asked, for Answer.Ahead
	called string // whom to tell
}

// do runs f on what is known about a name and stores what it left, in one step.
// Whoever was called is told after it.
func (n *Node) do(ctx context.Context, op, name string, f func(*visit) rule.Reply) (node.Answer, error) {
	n.tryRejoin(ctx)
	if err := n.enter(ctx); err != nil {
		return n.fail(op, err)
	}
	s := n.store
	v := s.load(name)
	a := v.answer(f(&v))
	if a.Status == node.Rejoining {
		a.Detail = n.outSince(v.now)
	}
	s.save(name, &v)
	tell := s.listenersOf(v.called)
	s.mu.Unlock()
	for _, l := range tell {
		l.event(v.called)
	}
	return a, nil
}

func (s *store) load(name string) visit {
	v := visit{now: s.clock(), reachable: func(waiter string) bool { return len(s.listenersOf(waiter)) > 0 }}
	l := s.leases[name]
	v.entry = rule.Entry{Holder: l.holder, Expires: l.expires, Register: s.registers[node.Stripe(name)], Out: s.out}
	if q := s.lines[name]; v.now < q.expires {
		v.line = q.line
	}
	return v
}

func (s *store) save(name string, v *visit) {
	if v.entry.Register > 0 {
		s.registers[node.Stripe(name)] = v.entry.Register
	}
	if v.entry.Leased(v.now) {
		s.leases[name] = lease{v.entry.Holder, v.entry.Expires}
	} else {
		delete(s.leases, name)
	}
	if len(v.line) > 0 {
		q := queue{v.line, s.lines[name].expires}
		if v.asked {
			q.expires = v.now + rule.QueueExpiry
		}
		s.lines[name] = q
	} else {
		delete(s.lines, name)
	}
	s.sweep(v.now)
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

const firstSweep = 64

// sweep drops expired leases and lines whenever their number has doubled since
// the last sweep: the memory stays within twice of what is live, and each costs a
// constant share of a sweep.
func (s *store) sweep(now time.Duration) {
	if len(s.leases)+len(s.lines) < s.sweepAt {
		return
	}
	maps.DeleteFunc(s.leases, func(_ string, l lease) bool { return l.expires <= now })
	maps.DeleteFunc(s.lines, func(_ string, q queue) bool { return q.expires <= now })
	s.sweepAt = max(firstSweep, 2*(len(s.leases)+len(s.lines)))
}

func (n *Node) fail(op string, err error) (node.Answer, error) {
	return node.Answer{}, n.errorf(op, err)
}

func (n *Node) errorf(op string, err error) error {
	return fmt.Errorf("memnode %s: %s: %w", n.name, op, err)
}
