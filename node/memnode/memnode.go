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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/rule"
)

var (
	// ErrDown is in the error of every operation between Crash and Restart.
	ErrDown = errors.New("the node is down")
	// ErrClosed is in the error of every operation after Close.
	ErrClosed = errors.New("the node is closed")
)

// Node is a fenlock.Node and fenlock.Rejoiner in memory. It is safe for
// concurrent use. Make one with New; the zero Node is not usable.
type Node struct {
	name   string
	store  *store
	closed atomic.Bool
	group  atomic.Pointer[fenlock.Group]
}

var _ fenlock.Rejoiner = (*Node)(nil)

// store is what the clients of a node share. The fields below mu are guarded by it.
type store struct {
	clock func() time.Duration

	mu        sync.Mutex
	leases    map[string]lease
	registers map[int]fence.Token
	sweepAt   int  // number of leases that starts the next sweep
	down      bool // crashed and not restarted
	out       bool // restarted and not admitted
	restarted time.Duration
	empty     []string // as in fenlock.Registers
}

type lease struct {
	holder  fenlock.Holder
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

// Acquire implements fenlock.Node.
func (n *Node) Acquire(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckProposal(r.Token), rule.CheckHolder(string(r.Holder))); err != nil {
		return n.fail("acquire", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.do(ctx, "acquire", r.Name, func(e *rule.Entry, now time.Duration) fenlock.Answer {
		return answer(e, now, rule.Acquire(e, now, string(r.Holder), ttl, r.Token))
	})
}

// Confirm implements fenlock.Node.
func (n *Node) Confirm(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := rule.CheckToken(r.Token); err != nil {
		return n.fail("confirm", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.do(ctx, "confirm", r.Name, func(e *rule.Entry, now time.Duration) fenlock.Answer {
		return answer(e, now, rule.Confirm(e, now, string(r.Holder), r.Token))
	})
}

// Extend implements fenlock.Node.
func (n *Node) Extend(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckToken(r.Token), rule.CheckHolder(string(r.Holder))); err != nil {
		return n.fail("extend", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.do(ctx, "extend", r.Name, func(e *rule.Entry, now time.Duration) fenlock.Answer {
		return answer(e, now, rule.Extend(e, now, string(r.Holder), ttl, r.Token))
	})
}

// Release implements fenlock.Node.
func (n *Node) Release(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return n.do(ctx, "release", r.Name, func(e *rule.Entry, now time.Duration) fenlock.Answer {
		return answer(e, now, rule.Release(e, now, string(r.Holder)))
	})
}

// ForceRelease implements fenlock.Node.
func (n *Node) ForceRelease(ctx context.Context, name string, floor fence.Token) (fenlock.Answer, error) {
	if err := rule.CheckToken(floor); err != nil {
		return n.fail("force release", fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
	}
	return n.do(ctx, "force release", name, func(e *rule.Entry, now time.Duration) fenlock.Answer {
		return answer(e, now, rule.ForceRelease(e, now, floor))
	})
}

// Inspect implements fenlock.Node. A node that is not admitted shows what it has.
func (n *Node) Inspect(ctx context.Context, name string) (fenlock.Lease, error) {
	found := fenlock.Lease{Name: name}
	_, err := n.do(ctx, "inspect", name, func(e *rule.Entry, now time.Duration) fenlock.Answer {
		found.Register = e.Register
		if e.Leased(now) {
			found.Label, found.Remaining = fenlock.Holder(e.Holder).Label(), e.Expires-now
		}
		return fenlock.Answer{}
	})
	return found, err
}

// List implements fenlock.Node, in the order of the names. It works on a copy,
// so that yield may call the node.
func (n *Node) List(ctx context.Context, yield func(fenlock.Lease) bool) error {
	if err := n.enter(ctx); err != nil {
		return n.errorf("list", err)
	}
	var all []fenlock.Lease
	now := n.store.clock()
	for name, l := range n.store.leases {
		if now < l.expires {
			all = append(all, fenlock.Lease{Name: name, Label: l.holder.Label(),
				Remaining: l.expires - now, Register: n.store.registers[fenlock.Stripe(name)]})
		}
	}
	n.store.mu.Unlock()
	slices.SortFunc(all, func(a, b fenlock.Lease) int { return strings.Compare(a.Name, b.Name) })
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

// Close makes every later operation of this client return an error. The store,
// and clients made by Share, go on. It always returns nil.
func (n *Node) Close() error {
	n.closed.Store(true)
	return nil
}

// do runs f on the entry of a name and stores what it left, in one step.
func (n *Node) do(ctx context.Context, op, name string, f func(*rule.Entry, time.Duration) fenlock.Answer) (fenlock.Answer, error) {
	n.tryRejoin(ctx)
	if err := n.enter(ctx); err != nil {
		return n.fail(op, err)
	}
	s := n.store
	defer s.mu.Unlock()
	now, stripe := s.clock(), fenlock.Stripe(name)
	before := s.leases[name]
	e := rule.Entry{Holder: string(before.holder), Expires: before.expires, Register: s.registers[stripe], Out: s.out}
	a := f(&e, now)
	if a.Status == fenlock.Rejoining {
		a.Detail = n.outSince(now)
	}
	if e.Register > 0 {
		s.registers[stripe] = e.Register
	}
	if e.Leased(now) {
		s.leases[name] = lease{fenlock.Holder(e.Holder), e.Expires}
		s.sweep(now)
	} else {
		delete(s.leases, name)
	}
	return a, nil
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

// sweep drops expired leases whenever their number has doubled since the last
// sweep: the memory stays within twice the leases that are live, and a lease
// costs a constant share of a sweep.
func (s *store) sweep(now time.Duration) {
	if len(s.leases) < s.sweepAt {
		return
	}
	for name, l := range s.leases {
		if l.expires <= now {
			delete(s.leases, name)
		}
	}
	s.sweepAt = max(firstSweep, 2*len(s.leases))
}

func (n *Node) fail(op string, err error) (fenlock.Answer, error) {
	return fenlock.Answer{}, n.errorf(op, err)
}

func (n *Node) errorf(op string, err error) error {
	return fmt.Errorf("memnode %s: %s: %w", n.name, op, err)
}
