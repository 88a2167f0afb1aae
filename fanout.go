package fenlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// fanout is one action under way: requests to some nodes, sent together, each
// bounded by the node timeout. No caller's context is involved: an answer that
// comes after the caller has gone may be a grant to be released.
type fanout struct {
	lock   *Lock
	action core.Action
	left   atomic.Int32 // calls that are not over; the last one ends the fanout

	// Its calls, by node: in the lock's rooms, or its own.
	which int
	own   []call

	// ctx bounds the requests to the nodes that are no Starters; nil without any.
	ctx    context.Context
	cancel context.CancelFunc

	// The deadlines' list of those that have a Starter in them.
	at         time.Time // zero: not in the list
	prev, next *fanout
}

// call is one request of a fanout.
type call struct {
	fanout *fanout
	node   int
	place  node.Place
	over   atomic.Bool // it was answered, or its time is up
}

// newFanout returns a fanout with its calls.
func (k *Lock) newFanout(action core.Action) (f *fanout) {
	switch {
	case action.Op == core.Acquire: // there is one
		f = &k.acquiring
	case action.Op == core.Release && k.released.CompareAndSwap(false, true):
		f = &k.releasing
		f.which = 1
	default:
		f = &fanout{own: make([]call, len(k.rooms))}
	}
	f.lock, f.action = k, action
	f.left.Store(int32(action.To.Len()))
	for i := range k.rooms {
		if action.To.Has(i) {
			c := f.call(i)
			c.fanout, c.node = f, i
		}
	}
	return f
}

func (f *fanout) call(n int) *call {
	if f.own != nil {
		return &f.own[n]
	}
	return &f.lock.rooms[n].calls[f.which]
}

// send carries out an action.
func (k *Lock) send(action core.Action) {
	if action.Op == core.None || action.To == 0 {
		return
	}
	l := k.locker
	f := k.newFanout(action)
	l.requests.begin(1)
	if start := action.To & l.starts; start != 0 {
		for i := range k.rooms {
			if start.Has(i) { // before its time can be up
				f.call(i).place = k.waiter.request(action.Op)
			}
		}
		l.deadlines.add(f)
	}
	if action.To&^l.starts != 0 {
		f.ctx, f.cancel = context.WithTimeout(k.base, l.config.NodeTimeout)
	}
	for i, n := range l.config.Nodes {
		switch {
		case !action.To.Has(i):
		case l.starts.Has(i):
			c := f.call(i)
			n.(node.Starter).Start(c.request(), l.config.NodeTimeout, c)
		default:
			go f.call(i).wait(n)
		}
	}
}

func (c *call) request() node.Request {
	k := c.fanout.lock
	return node.Request{Op: c.fanout.action.Op, Name: k.name, Holder: k.holder, TTL: k.locker.config.TTL, Token: c.fanout.action.Token, Place: c.place}
}

// wait makes a request to a node that is no Starter.
func (c *call) wait(n node.Node) {
	f := c.fanout
	c.place = f.lock.waiter.request(f.action.Op)
	c.Done(n.Do(f.ctx, c.request()))
}

// Wanted implements Call.
func (c *call) Wanted() bool { return !c.over.Load() }

// Done implements Call: it feeds the answer to the core, once, and sends what the
// answer asks for.
func (c *call) Done(answer node.Answer, err error) {
	if !c.over.CompareAndSwap(false, true) {
		return // it comes too late
	}
	f := c.fanout
	k := f.lock
	l := k.locker
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		// It is the request's own context that ended. The error must not match
		// the caller's, which is how a caller tells that it gave up itself.
		err = fmt.Errorf("no answer within %v", l.config.NodeTimeout)
	}
	if l.lines != nil && err == nil && answer.Status == node.Held {
		l.lines.observe(c.node, k.start, l.now(), answer.Clock)
	}
	k.send(k.answered(c.node, f.action, answer, err))
	if outOfLine := err == nil && f.action.Op == core.Acquire && answer.Status == node.Granted; !outOfLine && k.waiter.left(c.place) {
		// The node may have put it in line after it was told that the wait is over.
		l.lines.leave(c.node, k.waiter, whatever)
	}
	if f.left.Add(-1) == 0 {
		f.end()
		l.requests.end()
	}
}

// end frees the timers when all calls are over.
func (f *fanout) end() {
	if f.cancel != nil {
		f.cancel()
	}
	if !f.at.IsZero() {
		f.lock.locker.deadlines.remove(f)
	}
}

// expire ends the calls to Starters that have not been answered in time.
func (f *fanout) expire() {
	for i := range f.lock.rooms {
		if (f.action.To & f.lock.locker.starts).Has(i) {
			f.call(i).Done(node.Answer{}, context.DeadlineExceeded)
		}
	}
}

// deadlines are the fanouts with Starters in them, in the order in which their
// time is up: it is the same for all of them, so one timer and a list do. A timer
// for each would cost as much as half of what it bounds.
type deadlines struct {
	timeout time.Duration

	mu          sync.Mutex // guards the rest, and the list's links
	first, last *fanout
	timer       *time.Timer // runs while the list is not empty, and may run out once more
	running     bool
}

func (d *deadlines) add(f *fanout) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.at = time.Now().Add(d.timeout)
	f.prev = d.last
	if d.last == nil {
		d.first = f
	} else {
		d.last.next = f
	}
	d.last = f
	switch {
	case d.running:
	case d.timer == nil:
		d.timer, d.running = time.AfterFunc(d.timeout, d.expire), true
	default:
		d.timer.Reset(d.timeout)
		d.running = true
	}
}

func (d *deadlines) remove(f *fanout) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unlink(f)
}

func (d *deadlines) unlink(f *fanout) {
	switch {
	case f.prev != nil:
		f.prev.next = f.next
	case d.first == f:
		d.first = f.next
	default:
		return // it has run out
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		d.last = f.prev
	}
	f.prev, f.next = nil, nil
}

// expire is the timer's.
func (d *deadlines) expire() {
	now := time.Now()
	var over []*fanout
	d.mu.Lock()
	for d.first != nil && !d.first.at.After(now) {
		over = append(over, d.first)
		d.unlink(d.first)
	}
	d.running = d.first != nil
	if d.running {
		d.timer.Reset(d.first.at.Sub(now))
	}
	d.mu.Unlock()
	for _, f := range over {
		f.expire()
	}
}
