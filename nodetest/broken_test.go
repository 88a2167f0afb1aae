package nodetest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rule"
)

// broken is a node whose every decision can be replaced by a wrong one. As
// newBroken returns it, it is sound.
type broken struct {
	mu        sync.Mutex
	now       atomic.Int64
	leases    map[string]rule.Entry
	registers map[int]fence.Token

	acquire func(e *rule.Entry, now time.Duration, holder string, ttl time.Duration, proposal fence.Token) core.Reply
	confirm func(e *rule.Entry, now time.Duration, r fenlock.Request) core.Reply
	extend  func(e *rule.Entry, now time.Duration, holder string, ttl time.Duration, token fence.Token) core.Reply
	release func(e *rule.Entry, now time.Duration, holder string) core.Reply
	force   func(e *rule.Entry, now time.Duration, floor fence.Token) core.Reply
	key     func(name string) string
	stripe  func(name string) int
	label   func(holder string) string
	left    func(time.Duration) time.Duration
	ttl     func(time.Duration) (time.Duration, error)
	number  func(r fenlock.Request, err error) error
	wrap    func(err error, r fenlock.Request) error
	list    func(all []fenlock.Lease) []fenlock.Lease

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
		confirm: func(e *rule.Entry, now time.Duration, r fenlock.Request) core.Reply {
			return rule.Confirm(e, now, string(r.Holder), r.Token)
		},
		extend: rule.Extend, release: rule.Release, force: rule.ForceRelease,
		key:    func(name string) string { return name },
		stripe: fenlock.Stripe,
		label:  func(holder string) string { return fenlock.Holder(holder).Label() },
		left:   func(d time.Duration) time.Duration { return d },
		ttl:    rule.CheckTTL,
		number: func(_ fenlock.Request, err error) error { return err },
		wrap:   func(err error, _ fenlock.Request) error { return fmt.Errorf("broken node: %w", err) },
		list:   func(all []fenlock.Lease) []fenlock.Lease { return all },
	}
}

func (c *client) String() string {
	if c.mute {
		return ""
	}
	return "broken node"
}

func (c *client) do(ctx context.Context, r fenlock.Request, f func(e *rule.Entry, now time.Duration) core.Reply) (fenlock.Answer, error) {
	if err := c.refuse(ctx); err != nil {
		return fenlock.Answer{}, c.wrap(err, r)
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
	a := fenlock.Answer{Status: fenlock.Status(reply.Status), Register: reply.Register}
	if a.Status == fenlock.Held {
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

func (c *client) Acquire(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := c.ttl(r.TTL)
	if err = errors.Join(err, c.number(r, rule.CheckProposal(r.Token))); err != nil {
		return fenlock.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) core.Reply {
		return c.acquire(e, now, string(r.Holder), ttl, r.Token)
	})
}

func (c *client) Confirm(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := c.number(r, rule.CheckToken(r.Token)); err != nil {
		return fenlock.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) core.Reply { return c.confirm(e, now, r) })
}

func (c *client) Extend(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := c.ttl(r.TTL)
	if err != nil {
		return fenlock.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) core.Reply {
		return c.extend(e, now, string(r.Holder), ttl, r.Token)
	})
}

func (c *client) Release(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) core.Reply { return c.release(e, now, string(r.Holder)) })
}

func (c *client) ForceRelease(ctx context.Context, name string, floor fence.Token) (fenlock.Answer, error) {
	r := fenlock.Request{Name: name, Token: floor}
	if err := c.number(r, rule.CheckToken(floor)); err != nil {
		return fenlock.Answer{}, c.wrap(err, r)
	}
	return c.do(ctx, r, func(e *rule.Entry, now time.Duration) core.Reply { return c.force(e, now, floor) })
}

func (c *client) Inspect(ctx context.Context, name string) (fenlock.Lease, error) {
	l := fenlock.Lease{Name: name}
	_, err := c.do(ctx, fenlock.Request{Name: name}, func(e *rule.Entry, now time.Duration) core.Reply {
		l.Register = e.Register
		if e.Leased(now) {
			l.Label, l.Remaining = c.label(e.Holder), c.left(e.Expires-now)
		}
		return core.Reply{}
	})
	return l, err
}

func (c *client) List(ctx context.Context, yield func(fenlock.Lease) bool) error {
	if err := c.refuse(ctx); err != nil {
		return c.wrap(err, fenlock.Request{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []fenlock.Lease
	now := time.Duration(c.now.Load())
	for name, e := range c.leases {
		if e.Leased(now) {
			all = append(all, fenlock.Lease{Name: name, Label: c.label(e.Holder), Remaining: c.left(e.Expires - now), Register: c.registers[c.stripe(name)]})
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
