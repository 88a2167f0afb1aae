package library

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
)

// rival is what a rival's lock can do.
type rival struct {
	token   fence.Token
	until   time.Duration // end of validity, on the boottime clock
	extend  func(ctx context.Context) (until time.Duration, err error)
	release func(ctx context.Context) error
}

// renewed is a rival's lock, and does for it what its user has to. It extends the lock at a third
// of its TTL, and tells when its validity ends.
type renewed struct {
	rival
	ctx    context.Context
	cancel context.CancelCauseFunc

	calls sync.Mutex // held during a request
	mu    sync.Mutex // guards until
}

var (
	errExpired = errors.New("its validity has ended")
	errLetGo   = errors.New("released")
)

func newRenewed(ttl time.Duration, r rival) *renewed {
	l := &renewed{rival: r}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.renew(ttl)
	return l
}

func (l *renewed) renew(ttl time.Duration) {
	next := clock.Now() + ttl/3
	for {
		left := l.Remaining()
		if left == 0 {
			l.cancel(errExpired)
			return
		}
		select {
		case <-time.After(min(left, max(0, next-clock.Now()))):
		case <-l.ctx.Done():
			return
		}
		if clock.Now() < next {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, min(left, ttl/3))
		l.Extend(ctx)
		cancel()
		next = clock.Now() + ttl/3
	}
}

func (l *renewed) Extend(ctx context.Context) error {
	l.calls.Lock()
	defer l.calls.Unlock()
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	until, err := l.extend(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
	return nil
}

func (l *renewed) Token() fence.Token       { return l.token }
func (l *renewed) Context() context.Context { return l.ctx }

func (l *renewed) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return 0
	}
	return max(0, l.until-clock.Now())
}

func (l *renewed) Release(ctx context.Context) error {
	lost := l.ctx.Err() != nil
	l.cancel(errLetGo)
	l.calls.Lock()
	defer l.calls.Unlock()
	err := l.release(ctx)
	if lost {
		err = errors.Join(fmt.Errorf("it was lost before: %w", context.Cause(l.ctx)), err)
	}
	return err
}
