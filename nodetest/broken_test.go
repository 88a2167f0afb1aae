package nodetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// broken is a node whose every decision can be replaced by a wrong one. As
// newBroken returns it, it is sound.
type broken struct {
	mu        sync.Mutex
	now       atomic.Int64
	leases    map[string]rule.Entry
	registers map[int]fence.Token
	queues    brokenQueues

	check  func(r node.Request) error
	serve  func(s *served)
	key    func(name string) string
	stripe func(name string) int
	label  func(holder node.Holder) string
	left   func(time.Duration) time.Duration
	wrap   func(err error, r node.Request) error
	list   func(all []node.Lease) []node.Lease
	show   func(l node.Lease) node.Lease
	begins func(name, prefix string) bool

	torn, deaf, immortal, leaky, mute bool
	begun                             atomic.Int64 // requests of a torn one
	bootless                          bool         // leases do not end with the boot

	start func(c *startClient, r node.Request, call node.Call)
	tell  func(r *rejoiner, all *node.Registers)
}

// served is an operation that is carried out.
type served struct {
	*rule.Entry
	q   *brokenQueue // nil if the node keeps no queues
	now time.Duration
	r   node.Request

	as rule.Queue // what Serve is given: q, or what a mutant makes of it

	was     rule.Entry   // as it was before
	waiting rule.Waiters // the same
	a       node.Answer
	notify  string
}

func (s *served) sound() { s.a, s.notify = rule.Serve(s.Entry, s.as, s.now, s.r) }

// around has something happen before and after every operation of some kinds.
func around(before, after func(s *served), ops ...node.Op) func(*broken) {
	return func(n *broken) {
		sound := n.serve
		n.serve = func(s *served) {
			which := slices.Contains(ops, s.r.Op)
			if which && before != nil {
				before(s)
			}
			sound(s)
			if which && after != nil {
				after(s)
			}
		}
	}
}

func before(f func(s *served), ops ...node.Op) func(*broken) { return around(f, nil, ops...) }
func after(f func(s *served), ops ...node.Op) func(*broken)  { return around(nil, f, ops...) }

// checking has the checks see another request than the one that is carried out.
func checking(change func(r *node.Request)) func(*broken) {
	return func(n *broken) {
		sound := n.check
		n.check = func(r node.Request) error {
			change(&r)
			return sound(r)
		}
	}
}

// both is two changes.
func both(first, second func(*broken)) func(*broken) {
	return func(n *broken) {
		first(n)
		second(n)
	}
}

// boots has the machine boot, whose clock begins anew.
func (n *broken) boots() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now.Store(0)
	if !n.bootless {
		clear(n.leases)
	}
}

var errClosed = errors.New("closed")

// client is one of several users of a broken node.
type client struct {
	*broken
	closed atomic.Bool
}

func newBroken() *broken {
	return &broken{
		leases: map[string]rule.Entry{}, registers: map[int]fence.Token{}, queues: newBrokenQueues(),
		check:  rule.Check,
		serve:  (*served).sound,
		key:    func(name string) string { return name },
		stripe: node.Stripe,
		label:  func(holder node.Holder) string { return holder.Label() },
		left:   func(d time.Duration) time.Duration { return d },
		wrap:   func(err error, _ node.Request) error { return fmt.Errorf("broken node: %w", err) },
		list:   func(all []node.Lease) []node.Lease { return all },
		show:   func(l node.Lease) node.Lease { return l },
		begins: strings.HasPrefix,
	}
}

func (c *client) String() string {
	if c.mute {
		return ""
	}
	return "broken node"
}

func (c *client) Engine() any { return c }

func (c *client) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	a, _, err := c.do(ctx, r, func(time.Duration) *brokenQueue { return nil })
	return a, err
}

// do carries out a request, and returns whom to tell.
func (c *client) do(ctx context.Context, r node.Request, queue func(now time.Duration) *brokenQueue) (node.Answer,
	[]func(), error) {
	if err := c.check(r); err != nil {
		return node.Answer{}, nil, c.wrap(err, r)
	}
	if err := c.refuse(ctx); err != nil {
		return node.Answer{}, nil, c.wrap(err, r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Duration(c.now.Load())
	e := c.entry(r.Name)
	if c.torn { // reads and writes in two steps, with another request in between if one comes soon
		c.mu.Unlock()
		begun := c.begun.Add(1)
		for tries := 0; tries < 5 && c.begun.Load() == begun; tries++ {
			time.Sleep(time.Millisecond)
		}
		c.mu.Lock()
	}
	s := &served{Entry: &e, q: queue(now), now: now, r: r, was: e}
	if s.q != nil {
		s.as, s.waiting = s.q, slices.Clone(s.q.Waiters)
	}
	c.serve(s)
	c.leases[c.key(r.Name)] = e
	c.registers[c.stripe(r.Name)] = e.Register
	if s.a.Status == node.Held {
		s.a.HeldBy, s.a.Remaining = c.label(e.Holder), c.left(e.Expires-now)
	}
	return s.a, c.queues.told(s), nil
}

func (n *broken) entry(name string) rule.Entry {
	e := n.leases[n.key(name)]
	e.Register = n.registers[n.stripe(name)]
	return e
}

func (c *client) refuse(ctx context.Context) error {
	if c.closed.Load() && !c.immortal {
		return errClosed
	}
	if c.deaf {
		return nil
	}
	return ctx.Err()
}

func (c *client) Inspect(ctx context.Context, name string) (node.Lease, error) {
	if err := c.refuse(ctx); err != nil {
		return node.Lease{}, c.wrap(err, node.Request{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease(name, c.entry(name)), nil
}

func (n *broken) lease(name string, e rule.Entry) node.Lease {
	l := e.Lease(name, time.Duration(n.now.Load()))
	if l.Leased {
		l.Label, l.Remaining = n.label(e.Holder), n.left(l.Remaining)
	}
	return n.show(l)
}

// Waiting implements node.Admin.
func (c *client) Waiting(_ context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues.byName[c.queues.key(name)]
	if q == nil {
		return nil, 0, nil
	}
	for _, at := range q.Waiters {
		first = append(first, node.WaiterOf(at, time.Duration(c.now.Load())))
	}
	first, all = c.queues.shown(first)
	return first[:min(limit, len(first))], all, nil
}

func (c *client) List(ctx context.Context, prefix string, yield func(node.Lease) bool) error {
	if err := c.refuse(ctx); err != nil {
		return c.wrap(err, node.Request{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []node.Lease
	for name, e := range c.leases {
		e.Register = c.registers[c.stripe(name)]
		if l := c.lease(name, e); l.Leased && c.begins(name, prefix) {
			all = append(all, l)
		}
	}
	for _, l := range c.list(all) {
		if !yield(l) {
			break
		}
	}
	return nil
}

func (c *client) Close() error {
	if c.leaky && !c.closed.Load() {
		go func() { select {} }()
	}
	c.closed.Store(true)
	return nil
}
