package nodetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

	acquire func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, proposal fence.Token) rule.Reply
	confirm func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply
	extend  func(e *rule.Entry, now time.Duration, holder node.Holder, ttl time.Duration, token fence.Token) rule.Reply
	release func(e *rule.Entry, now time.Duration, holder node.Holder) rule.Reply
	force   func(e *rule.Entry, now time.Duration, floor fence.Token) rule.Reply
	key     func(name string) string
	stripe  func(name string) int
	label   func(holder node.Holder) string
	left    func(time.Duration) time.Duration
	ttl     func(time.Duration) (time.Duration, error)
	number  func(r node.Request, err error) error
	wrap    func(err error, r node.Request) error
	list    func(all []node.Lease) []node.Lease

	torn, deaf, immortal, leaky, mute bool
}

var errClosed = errors.New("closed")

// client is one of several users of a broken node.
type client struct {
	*broken
	closed atomic.Bool
}

func newBroken() *broken {
	return &broken{
		leases: map[string]rule.Entry{}, registers: map[int]fence.Token{},
		acquire: rule.Acquire,
		confirm: func(e *rule.Entry, now time.Duration, r node.Request) rule.Reply {
			return rule.Confirm(e, now, r.Holder, r.Token)
		},
		extend: rule.Extend, release: rule.Release, force: rule.ForceRelease,
		key:    func(name string) string { return name },
		stripe: node.Stripe,
		label:  func(holder node.Holder) string { return holder.Label() },
		left:   func(d time.Duration) time.Duration { return d },
		ttl:    rule.CheckTTL,
		number: func(_ node.Request, err error) error { return err },
		wrap:   func(err error, _ node.Request) error { return fmt.Errorf("broken node: %w", err) },
		list:   func(all []node.Lease) []node.Lease { return all },
	}
}

func (c *client) String() string {
	if c.mute {
		return ""
	}
	return "broken node"
}

func (c *client) do(ctx context.Context, r node.Request, f func(e *rule.Entry, now time.Duration) rule.Reply) (node.Answer, error) {
	if err := c.refuse(ctx); err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Duration(c.now.Load())
	e := c.leases[c.key(r.Name)]
	e.Register = c.registers[c.stripe(r.Name)]
	if c.torn { // reads and writes in two steps
		c.mu.Unlock()
		runtime.Gosched()
		time.Sleep(50 * time.Microsecond)
		c.mu.Lock()
	}
	reply := f(&e, now)
	c.leases[c.key(r.Name)] = e
	c.registers[c.stripe(r.Name)] = e.Register
	a := node.Answer{Status: reply.Status, Register: reply.Register}
	if a.Status == node.Held {
		a.HeldBy, a.Remaining = c.label(e.Holder), c.left(e.Expires-now)
	}
	return a, nil
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

func (c *client) Engine() any { return c }

func (c *client) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	switch r.Op {
	case node.Acquire:
		return c.Acquire(ctx, r)
	case node.Confirm:
		return c.Confirm(ctx, r)
	case node.Extend:
		return c.Extend(ctx, r)
	case node.Release:
		return c.Release(ctx, r)
	case node.ForceRelease:
		return c.ForceRelease(ctx, r)
	}
	return node.Answer{}, c.wrap(node.ErrInvalid, r)
}

func (c *client) Acquire(ctx context.Context, r node.Request) (node.Answer, error) {
	ttl, err := c.ttl(r.TTL)
	if err = errors.Join(err, c.number(r, rule.CheckProposal(r.Token))); err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) rule.Reply {
		return c.acquire(e, now, r.Holder, ttl, r.Token)
	})
}

func (c *client) Confirm(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := c.number(r, rule.CheckToken(r.Token)); err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) rule.Reply { return c.confirm(e, now, r) })
}

func (c *client) Extend(ctx context.Context, r node.Request) (node.Answer, error) {
	ttl, err := c.ttl(r.TTL)
	if err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) rule.Reply {
		return c.extend(e, now, r.Holder, ttl, r.Token)
	})
}

func (c *client) Release(ctx context.Context, r node.Request) (node.Answer, error) {
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) rule.Reply { return c.release(e, now, r.Holder) })
}

func (c *client) ForceRelease(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := c.number(r, rule.CheckToken(r.Token)); err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) rule.Reply { return c.force(e, now, r.Token) })
}

func (c *client) Inspect(ctx context.Context, name string) (node.Lease, error) {
	l := node.Lease{Name: name}
	_, err := c.do(ctx, node.Request{Name: name}, func(e *rule.Entry, now time.Duration) rule.Reply {
		l.Register = e.Register
		if e.Leased(now) {
			l.Label, l.Remaining = c.label(e.Holder), c.left(e.Expires-now)
		}
		return rule.Reply{}
	})
	return l, err
}

func (c *client) List(ctx context.Context, yield func(node.Lease) bool) error {
	if err := c.refuse(ctx); err != nil {
		return c.wrap(err, node.Request{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []node.Lease
	now := time.Duration(c.now.Load())
	for name, e := range c.leases {
		if e.Leased(now) {
			all = append(all, node.Lease{Name: name, Label: c.label(e.Holder), Remaining: c.left(e.Expires - now), Register: c.registers[c.stripe(name)]})
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
