package nodetest_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// brokenLines are the waiting lines of a broken node, and every decision about
// them that can be replaced by a wrong one. As newBrokenLines returns them, they
// are sound.
type brokenLines struct {
	*broken
	lines     map[string]*brokenLine
	listeners []listener

	check     func(op string, p node.Place) error
	acquire   func(v *visit, p node.Place, acquire func(*rule.Entry) rule.Reply) (rule.Reply, string)
	release   func(v *visit, holder node.Holder, p node.Place) (rule.Reply, string)
	force     func(v *visit, force func(*rule.Entry) rule.Reply) (rule.Reply, string)
	after     func(v *visit, p node.Place, called string)
	reachable func(v *visit, waiter string) bool
	tell      func(v *visit, called string) []string
	ahead     func(l rule.Line, waiter string) int
	clock     func(now time.Duration) time.Duration
	key       func(name string) string
	expiry    time.Duration

	renewed, listens, nervous, slow bool
}

type brokenLine struct {
	rule.Line
	expires time.Duration
}

type listener struct {
	of     *queuer
	client string
	event  func(string)
}

// visit is what a decision is about.
type visit struct {
	n   *brokenLines
	e   *rule.Entry
	l   *rule.Line
	now time.Duration
}

func (v *visit) reachable(waiter string) bool { return v.n.reachable(v, waiter) }

// queuer is one of several users of a broken node with lines.
type queuer struct {
	*client
	n *brokenLines
}

func newBrokenLines() *brokenLines {
	n := &brokenLines{
		broken: newBroken(), lines: map[string]*brokenLine{},
		check: func(_ string, p node.Place) error { return rule.CheckPlace(p) },
		acquire: func(v *visit, p node.Place, acquire func(*rule.Entry) rule.Reply) (rule.Reply, string) {
			return rule.AcquireInLine(v.e, v.l, v.now, p, v.reachable, acquire)
		},
		release: func(v *visit, holder node.Holder, p node.Place) (rule.Reply, string) {
			return rule.ReleaseInLine(v.e, v.l, v.now, holder, p, v.reachable)
		},
		force: func(v *visit, force func(*rule.Entry) rule.Reply) (rule.Reply, string) {
			return rule.ForceReleaseInLine(v.e, v.l, v.now, v.reachable, force)
		},
		after:     func(*visit, node.Place, string) {},
		reachable: func(v *visit, waiter string) bool { return len(v.n.listenersOf(waiter)) > 0 },
		tell:      func(_ *visit, called string) []string { return []string{called} },
		ahead:     func(l rule.Line, waiter string) int { return l.Ahead(waiter) },
		clock:     func(now time.Duration) time.Duration { return now },
		key:       func(name string) string { return name },
		expiry:    rule.QueueExpiry, renewed: true,
	}
	n.broken.label = func(holder node.Holder) string { return holder.Label() }
	return n
}

func (n *brokenLines) listenersOf(waiter string) (events []func(string)) {
	for _, l := range n.listeners {
		if strings.HasPrefix(waiter, l.client+":") && !l.of.closed.Load() {
			events = append(events, l.event)
		}
	}
	return events
}

// inLine runs f on the line of a name, together with its lease.
func (c *queuer) inLine(ctx context.Context, r node.Request, asks bool, f func(v *visit) (rule.Reply, string)) (node.Answer, error) {
	var tell []func()
	var ahead int
	var clock time.Duration
	a, err := c.do(ctx, r, func(e *rule.Entry, now time.Duration) rule.Reply {
		line := c.n.lines[c.n.key(r.Name)]
		if line == nil || line.expires <= now {
			line = &brokenLine{expires: now + c.n.expiry}
			c.n.lines[c.n.key(r.Name)] = line
		}
		if asks && c.n.renewed {
			line.expires = now + c.n.expiry
		}
		v := &visit{c.n, e, &line.Line, now}
		reply, called := f(v)
		c.n.after(v, r.Place, called)
		if called != "" {
			for _, waiter := range c.n.tell(v, called) {
				for _, event := range c.n.listenersOf(waiter) {
					tell = append(tell, func() { event(waiter) })
				}
			}
		}
		ahead, clock = c.n.ahead(line.Line, r.Place.Waiter), c.n.clock(now)
		return reply
	})
	if err == nil && a.Status == node.Held {
		a.Ahead, a.Clock = ahead, clock
	}
	for _, t := range tell {
		t()
	}
	return a, err
}

func (c *queuer) refusePlace(op string, r node.Request) error {
	if err := c.n.check(op, r.Place); err != nil {
		return c.wrap(fmt.Errorf("%w: %w", fenlock.ErrInvalid, err), r)
	}
	return nil
}

func (c *queuer) Engine() any { return c }

func (c *queuer) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	switch r.Op {
	case node.Acquire:
		return c.Acquire(ctx, r)
	case node.Release:
		return c.Release(ctx, r)
	case node.ForceRelease:
		return c.ForceRelease(ctx, r)
	}
	return c.client.Do(ctx, r)
}

func (c *queuer) Acquire(ctx context.Context, r node.Request) (node.Answer, error) {
	ttl, err := c.ttl(r.TTL)
	if err == nil {
		err = c.number(r, rule.CheckProposal(r.Token))
	}
	if err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	if err := c.refusePlace("acquire", r); err != nil {
		return node.Answer{}, err
	}
	return c.inLine(ctx, r, true, func(v *visit) (rule.Reply, string) {
		return c.n.acquire(v, r.Place, func(e *rule.Entry) rule.Reply {
			return c.client.acquire(e, v.now, r.Holder, ttl, r.Token)
		})
	})
}

func (c *queuer) Release(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := c.refusePlace("release", r); err != nil {
		return node.Answer{}, err
	}
	return c.inLine(ctx, r, r.Place.Stamp != 0, func(v *visit) (rule.Reply, string) {
		return c.n.release(v, r.Holder, r.Place)
	})
}

func (c *queuer) ForceRelease(ctx context.Context, r node.Request) (node.Answer, error) {
	if err := c.number(r, rule.CheckToken(r.Token)); err != nil {
		return node.Answer{}, c.wrap(err, r)
	}
	return c.inLine(ctx, r, false, func(v *visit) (rule.Reply, string) {
		return c.n.force(v, func(e *rule.Entry) rule.Reply { return c.client.force(e, v.now, r.Token) })
	})
}

func (c *queuer) Listen(_ context.Context, client string, event func(string)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() && !c.n.listens {
		return c.wrap(errClosed, node.Request{})
	}
	c.n.listeners = append(c.n.listeners, listener{c, client, event})
	if c.n.nervous {
		event("")
	}
	return nil
}

// forever is later than any test.
const forever = time.Duration(math.MaxInt64) / 2
