package engine

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Lifetime is a node's, from when it is made until Close. It is the context of what goes on in
// the background, and counts the goroutines that Close waits for. Make it with NewLifetime.
type Lifetime struct {
	context.Context
	end   context.CancelCauseFunc
	mu    sync.Mutex // nothing begins once the context is done
	tasks sync.WaitGroup
}

// NewLifetime returns a life that has not ended.
func NewLifetime() *Lifetime {
	l := &Lifetime{}
	l.Context, l.end = context.WithCancelCause(context.Background())
	return l
}

// Life returns l.
func (l *Lifetime) Life() context.Context { return l }

// Spawn runs f in a goroutine, for which Wait waits. After End it returns ErrClosed, and
// runs nothing.
func (l *Lifetime) Spawn(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Err() != nil {
		return ErrClosed
	}
	l.tasks.Go(f)
	return nil
}

// Begin is Request for what Wait has to wait for.
func (l *Lifetime) Begin(ctx context.Context) (inner context.Context, over func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inner, end, err := l.Request(ctx)
	if err != nil {
		return inner, end, err
	}
	l.tasks.Add(1)
	return inner, func() { end(); l.tasks.Done() }, nil
}

// Request returns the context of one request, which is done when the caller's is, or with
// the life. Over has to be called at its end, for which Wait does not wait. The
// error is ErrClosed, or of a context that is done, and matches node.ErrNotSent.
func (l *Lifetime) Request(ctx context.Context) (inner context.Context, over func(), err error) {
	err = ctx.Err()
	if l.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		return ctx, func() {}, node.NotSent(err)
	}
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l, func() { cancel(ErrClosed) })
	return inner, func() { stop(); cancel(nil) }, nil
}

// End ends the life, and reports whether this was the first time. The context's cause is
// ErrClosed.
func (l *Lifetime) End() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.Err() == nil
	l.end(ErrClosed)
	return first
}

// Wait waits until all is over that was begun.
func (l *Lifetime) Wait() { l.tasks.Wait() }

// Pause returns after a while, or when a context is done.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
