package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// sleep returns after d, or with the context's error when that is done.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause is how long a waiter waits before the release: random, so that it says
// nothing about where a poller is in its delay.
type pause struct{ least, spread time.Duration }

var (
	longPause  = pause{50 * time.Millisecond, 50 * time.Millisecond}
	shortPause = pause{2 * time.Millisecond, time.Millisecond}
)

func (p pause) sleep() { time.Sleep(p.least + rand.N(p.spread)) }

// limited returns a context that ends after d, but has no deadline: valkeylock
// would shorten its leases to one.
func limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(errGaveUp) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// within calls f with a context that is limited, and returns errGaveUp if that has ended.
func within(ctx context.Context, d time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := limited(ctx, d)
	defer cancel()
	err := f(ctx)
	if context.Cause(ctx) == errGaveUp {
		return errGaveUp
	}
	return err
}

// grace is how long a contender may take to notice that its context is done.
const grace = 10 * time.Second

// returned waits for something that should end when ctx is done, at the latest,
// and reports whether it has.
func returned(ctx context.Context, wait func()) bool {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	case <-time.After(grace):
		return false
	}
}

var errGaveUp = errors.New("gave up waiting for it")
