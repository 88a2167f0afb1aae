package fenlock

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// This file drives the core: it sends what the core asks for, feeds it the
// answers. A lock that is held has no goroutine, and a tick of the Locker's timer.

// answered feeds one answer to the core, and returns what to send next.
func (k *Lock) answered(i int, action core.Action, answer node.Answer, err error) (next core.Action) {
	var reply core.Reply
	if err == nil {
		reply = core.Reply{Status: core.Status(answer.Status), Register: answer.Register}
		k.locker.observe(answer.Register)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rooms[i].said = nodeAnswer{op: action.Op, answer: answer, err: err}
	var now time.Duration
	if k.timely(action) {
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

// timely reports whether it matters when an answer comes: not of a release, and not
// once a majority has decided. To read the clock is a system call.
func (k *Lock) timely(action core.Action) bool {
	switch action.Op {
	case core.Acquire, core.Confirm:
		return !k.decided
	case core.Extend:
		_, state := k.attempt.Extension()
		return state != core.Carried
	}
	return false
}

// settle tells whoever waits what the core has decided. It is called, with the
// mutex held, after each step of the core.
func (k *Lock) settle(now time.Duration) {
	phase := k.attempt.Phase()
	if phase == core.Acquiring || phase == core.Confirming {
		return
	}
	if !k.decided {
		k.decided = true
		if phase == core.Holding {
			if k.waiter != nil {
				k.waiter.stop()
			}
			k.ctx, k.cancel = context.WithCancelCause(k.base)
			k.locker.ticks.set(k, now, k.nextTick(now))
		} else {
			k.failure, k.refusals = k.failed(), k.said()
		}
		k.told <- struct{}{}
	}
	if phase == core.Over && k.ctx != nil && k.ctx.Err() == nil {
		k.locker.ticks.remove(k)
		k.cancel(k.endError())
		if k.attempt.Reason() != core.LetGo {
			go k.lost()
		}
	}
	if k.extension != nil {
		k.settleExtension(now)
	}
	if k.release.begun && !k.release.ended {
		k.settleRelease()
	}
}

// lost logs a loss, after the holder was told and without the mutex: a log that
// blocks must not keep anybody writing without a lock.
func (k *Lock) lost() {
	k.locker.config.Logger.Warn("fenlock: not held any more", "name", k.name, "error", context.Cause(k.ctx))
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
		k.locker.ticks.set(k, now, k.nextTick(now))
	}
}

func (k *Lock) settleRelease() {
	done, clean := k.attempt.ReleaseOutcome()
	if !done {
		return
	}
	k.release.ended = true
	if !clean {
		k.release.err = k.quorumError(core.Release)
	}
	k.told <- struct{}{}
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

// tick extends when that is due, or nearly so, and ends what has run out. Now may be
// a moment ago.
func (k *Lock) tick(now time.Duration) {
	k.mu.Lock()
	var action core.Action
	k.attempt.Tick(now)
	if due, ok := k.attempt.ExtendDue(); ok && now+k.locker.ticks.ahead >= due && !k.locker.requests.isClosed() {
		action = k.startExtend(now)
	}
	k.settle(now)
	if k.attempt.Phase() == core.Holding {
		k.locker.ticks.set(k, now, k.nextTick(now))
	}
	k.mu.Unlock()
	k.send(action)
}

// nextTick returns when the next tick is: at the next extension or the end of the
// validity. Never later than in a quarter of the TTL, because Go's timers stand
// still while the machine is suspended, and the validity does not.
func (k *Lock) nextTick(now time.Duration) time.Duration {
	next := k.attempt.Until()
	if due, ok := k.attempt.ExtendDue(); ok && !k.locker.requests.isClosed() {
		next = min(next, due)
	}
	return min(max(next, now), now+k.locker.config.TTL/4)
}
