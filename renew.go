package fenlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/core"
)

// This file drives the core: it sends what the core asks for, feeds it the
// answers, and keeps one timer per lock that is held. There is no goroutine
// per lock, only one per request under way.

// fanout is one action under way: requests to some nodes, sent together.
type fanout struct {
	action core.Action
	ctx    context.Context
	cancel context.CancelFunc
	left   atomic.Int32 // answers to come; the last one frees ctx's timer
}

// send carries out an action: one request to each of its nodes, all at once,
// each bounded by the node timeout. The context is not the caller's: an answer
// that comes after the caller has gone may be a grant to be released.
func (k *Lock) send(action core.Action) {
	if action.Op == core.None || action.To == 0 {
		return
	}
	f := &fanout{action: action}
	f.ctx, f.cancel = context.WithTimeout(k.base, k.locker.config.NodeTimeout)
	f.left.Store(int32(action.To.Len()))
	k.locker.requests.begin(action.To.Len())
	for i, node := range k.locker.config.Nodes {
		if action.To.Has(i) {
			go k.ask(f, i, node)
		}
	}
}

// ask sends one request of a fanout, and what the answer asks for.
func (k *Lock) ask(f *fanout, i int, node Node) {
	defer k.locker.requests.end()
	place := k.waiter.request(f.action.Op)
	answer, err := k.request(f.ctx, node, f.action, place)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		// It is the request's own context that ended. The error must not match
		// the caller's, which is how a caller tells that it gave up itself.
		err = fmt.Errorf("no answer within %v", k.locker.config.NodeTimeout)
	}
	if f.left.Add(-1) == 0 {
		f.cancel()
	}
	if lines := k.locker.lines; lines != nil && err == nil && answer.Status == Held {
		lines.observe(i, k.start, k.locker.now(), answer.Clock)
	}
	k.send(k.answered(i, f.action, answer, err))
	if outOfLine := err == nil && f.action.Op == core.Acquire && answer.Status == Granted; !outOfLine && k.waiter.left(place) {
		// The node may have put it in line after it was told that the wait is over.
		k.locker.lines.leave(i, k.waiter, whatever)
	}
}

// request makes one request to one node.
func (k *Lock) request(ctx context.Context, node Node, action core.Action, place Place) (Answer, error) {
	r := Request{Name: k.name, Holder: k.holder, TTL: k.locker.config.TTL, Token: action.Token, Place: place}
	switch action.Op {
	case core.Acquire:
		return node.Acquire(ctx, r)
	case core.Confirm:
		return node.Confirm(ctx, r)
	case core.Extend:
		return node.Extend(ctx, r)
	default:
		return node.Release(ctx, r)
	}
}

// answered feeds one answer to the core, and returns what to send next.
func (k *Lock) answered(i int, action core.Action, answer Answer, err error) (next core.Action) {
	var reply core.Reply
	if err == nil {
		reply = core.Reply{Status: core.Status(answer.Status), Register: answer.Register}
		k.locker.observe(answer.Register)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[i] = nodeAnswer{op: action.Op, answer: answer, err: err}
	var now time.Duration // that a lease was released is true at any time
	if action.Op != core.Release {
		now = k.locker.now()
	}
	switch action.Op {
	case core.Acquire:
		next = k.attempt.OnAcquire(i, reply, now)
	case core.Confirm:
		next = k.attempt.OnConfirm(i, action.Token, reply, now)
	case core.Extend:
		next = k.attempt.OnExtend(i, action.Round, reply, now)
	case core.Release:
		k.attempt.OnRelease(i, reply)
	}
	k.settle(now)
	return next
}

// settle tells whoever waits what the core has decided. It is called, with the
// mutex held, after each step of the core.
func (k *Lock) settle(now time.Duration) {
	phase := k.attempt.Phase()
	if phase == core.Acquiring || phase == core.Confirming {
		return
	}
	select {
	case <-k.decided:
	default:
		if phase == core.Holding {
			if k.waiter != nil {
				k.waiter.stop()
			}
			k.ctx, k.cancel = context.WithCancelCause(k.base)
			context.AfterFunc(k.ctx, k.ended)
			k.timer = time.AfterFunc(k.nextTick(now), k.tick)
		} else {
			k.failure, k.refusals = k.failed(), k.said()
		}
		close(k.decided)
	}
	if phase == core.Over && k.ctx != nil && k.ctx.Err() == nil {
		k.timer.Stop()
		k.cancel(k.endError())
	}
	if k.extension != nil {
		k.settleExtension(now)
	}
	if k.release != nil {
		k.settleRelease()
	}
}

// ended logs a loss, after the holder was told and without the mutex: a log that
// blocks must not keep anybody writing without a lock.
func (k *Lock) ended() {
	if err := context.Cause(k.ctx); !errors.Is(err, ErrReleased) {
		k.locker.config.Logger.Warn("fenlock: not held any more", "name", k.name, "error", err)
	}
}

func (k *Lock) settleExtension(now time.Duration) {
	_, state := k.attempt.Extension()
	if state == core.Pending {
		return
	}
	// Over counts more than Carried: the validity may have run out since.
	k.extension.err = k.endError()
	if k.extension.err == nil && state == core.Missed {
		k.extension.err = k.quorumError(core.Extend)
	}
	close(k.extension.done)
	k.extension = nil
	if k.attempt.Phase() == core.Holding {
		k.timer.Reset(k.nextTick(now))
	}
}

func (k *Lock) settleRelease() {
	done, clean := k.attempt.ReleaseOutcome()
	if !done {
		return
	}
	select {
	case <-k.release.done:
	default:
		if !clean {
			k.release.err = k.quorumError(core.Release)
		}
		close(k.release.done)
	}
}

// startExtend begins a round, with the mutex held.
func (k *Lock) startExtend(now time.Duration) core.Action {
	action := k.attempt.StartExtend(now)
	if action.Op != core.None && k.extension == nil {
		k.extension = &outcome{done: make(chan struct{})}
	}
	k.settle(now)
	return action
}

// tick is the timer's: it extends when that is due and ends what has run out.
func (k *Lock) tick() {
	k.mu.Lock()
	var action core.Action
	now := k.locker.now()
	k.attempt.Tick(now)
	if due, ok := k.attempt.ExtendDue(); ok && now >= due && !k.locker.requests.isClosed() {
		action = k.startExtend(now)
	}
	k.settle(now)
	if k.attempt.Phase() == core.Holding {
		k.timer.Reset(k.nextTick(now))
	}
	k.mu.Unlock()
	k.send(action)
}

// nextTick returns how long the timer may sleep: until the next extension or
// the end of the validity. Never for longer than a quarter of the TTL, because
// Go's timers stand still while the machine is suspended, and the validity does
// not.
func (k *Lock) nextTick(now time.Duration) time.Duration {
	next := k.attempt.Until()
	if due, ok := k.attempt.ExtendDue(); ok && !k.locker.requests.isClosed() {
		next = min(next, due)
	}
	return min(max(next-now, 0), k.locker.config.TTL/4)
}
