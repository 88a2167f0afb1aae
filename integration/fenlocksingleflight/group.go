// Package fenlocksingleflight has one of many processes compute what all of them need. The others
// wait for it and read it from a cache that they share.
//
//	reports, err := fenlocksingleflight.New[Report](locker, cache, "reports")
//	...
//	report, err := reports.Do(ctx, "2026-11", func(ctx context.Context) (Report, error) {
//		return compute(ctx) // ctx ends when the lock is lost, or no caller waits any more
//	})
//
// Do looks into the cache; takes the lock of the key; looks once more, because another process may
// have computed it meanwhile; loads, stores and releases. Within a process the callers for a key
// are one. Those of other processes come one after the other, two round trips each, and find what
// the first has stored.
//
// # When the lock is lost
//
// Others may compute the same again, and both have a value: what is computed must not be wrong for
// being computed twice. The cache gets the token of the lock, so that it can refuse what comes from
// a process that was paused. It uses fence.Guard's rule, or one of the guards in databases. Without
// that the older of two values may be the one that stays.
package fenlocksingleflight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// Cache is where the processes keep what they have computed. It is safe for concurrent use.
type Cache[V any] interface {
	// Get returns the value of a key, and whether there is one.
	Get(ctx context.Context, key string) (value V, found bool, err error)
	// Set stores the value. It may refuse a token that is smaller than one that it has seen for the
	// key, by an error that matches fence.ErrStale.
	Set(ctx context.Context, key string, value V, token fence.Token) error
}

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error,
		opts ...fenlock.Option) error
}

// Group is what is computed once among processes that have the same cache and prefix. It is safe
// for concurrent use.
type Group[V any] struct {
	locks  Locks
	cache  Cache[V]
	prefix string
	opts   []fenlock.Option

	mu      sync.Mutex
	flights map[string]*flight[V] // by key
}

// flight is one load, or the wait for another process's, for all callers of this process.
type flight[V any] struct {
	callers int // those that wait for it, under the Group's mutex
	cancel  context.CancelFunc

	done     chan struct{}
	value    V
	err      error
	panicked *panicError
}

// panicError is a panic of load, with the stack that it had.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// New returns a Group whose locks have the prefix, a slash and a key as their names. The options
// are for each lock. The error matches fenlock.ErrInvalid.
func New[V any](locks Locks, cache Cache[V], prefix string, opts ...fenlock.Option) (*Group[V], error) {
	if locks == nil || cache == nil {
		return nil, fmt.Errorf("%w: fenlocksingleflight needs a Locker or Groups, and a Cache, not nil", fenlock.ErrInvalid)
	}
	if err := locks.Check(prefix, opts...); err != nil {
		return nil, err
	}
	return &Group[V]{locks: locks, cache: cache, prefix: prefix, opts: opts, flights: map[string]*flight[V]{}}, nil
}

// Do returns the value of a key: from the cache, or else from load, which one caller's process
// runs. If that fails, the error is all its callers', and the next process in the queue runs its
// own.
//
// The value is good if the error is nil, and also if that matches fenlock.ErrLost,
// fenlock.ErrMaxHold or fence.ErrStale: others may have computed it too. Where there is no value,
// the error matches none of these, whatever load returned. A loss before load returned is load's to
// hear of, by its context, and a value is not stored after it. An error of Cache.Set comes with the
// value as well.
//
// If ctx ends, Do returns with its error. The load goes on for as long as a caller waits for it,
// with the values of the first caller's context. A panic in load is one in all of its callers; if
// it exits its goroutine, that is an error. A load that calls Do with its own key waits for itself.
//
// Without a quorum of nodes Do waits for one, as Locker.Acquire does; fenlock.WithWait among New's
// options bounds that, and the wait for other processes. The error matches fenlock.ErrInvalid if
// the key cannot be part of a lock's name.
func (g *Group[V]) Do(ctx context.Context, key string, load func(ctx context.Context) (V, error)) (value V, err error) {
	if load == nil {
		return value, fmt.Errorf("%w: the function for %q is nil", fenlock.ErrInvalid, key)
	}
	if err := fenlock.CheckName(g.name(key)); err != nil {
		return value, err
	}
	cached, found, err := g.cache.Get(ctx, key)
	if err != nil || found {
		return cached, valueless(err)
	}
	f := g.join(ctx, key, load)
	select {
	case <-f.done:
	case <-ctx.Done():
		g.leave(key, f)
		return value, fmt.Errorf("fenlocksingleflight: gave up waiting for %q: %w", key, ctx.Err())
	}
	if f.panicked != nil {
		panic(f.panicked)
	}
	return f.value, f.err
}

func (g *Group[V]) name(key string) string { return g.prefix + "/" + key }

// join returns the flight for a key, and begins it if there is none.
func (g *Group[V]) join(ctx context.Context, key string, load func(ctx context.Context) (V, error)) *flight[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.flights[key]; f != nil {
		f.callers++
		return f
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[V]{callers: 1, cancel: cancel, done: make(chan struct{})}
	g.flights[key] = f
	go func() {
		returned := false
		defer func() {
			if !returned {
				if p := recover(); p != nil {
					f.panicked = &panicError{p, debug.Stack()}
				} else {
					f.err = fmt.Errorf("fenlocksingleflight: the function for %q has exited its goroutine", key)
				}
			}
			g.land(key, f)
		}()
		f.value, f.err = g.fly(ctx, key, load)
		returned = true
	}()
	return f
}

// leave is for a caller who does not wait any more. The last one ends the flight, and who comes
// later begins another one.
func (g *Group[V]) leave(key string, f *flight[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.callers--; f.callers > 0 {
		return
	}
	f.cancel()
	g.forget(key, f)
}

// land tells the callers.
func (g *Group[V]) land(key string, f *flight[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(key, f)
	f.cancel()
	close(f.done)
}

func (g *Group[V]) forget(key string, f *flight[V]) {
	if g.flights[key] == f {
		delete(g.flights, key)
	}
}

// fly gets the value under the lock.
func (g *Group[V]) fly(ctx context.Context, key string, load func(ctx context.Context) (V, error)) (value V,
	err error) {
	found, loaded := false, false
	err = g.locks.Do(ctx, g.name(key), func(ctx context.Context, token fence.Token) error {
		var err error
		if value, found, err = g.cache.Get(ctx, key); err != nil || found {
			return err
		}
		if value, err = load(ctx); err != nil {
			return err
		}
		loaded = true
		if ctx.Err() != nil { // Do has the loss; or no caller waits
			return nil
		}
		return g.cache.Set(ctx, key, value, token)
	}, g.opts...)
	switch {
	case found && (errors.Is(err, fenlock.ErrLost) || errors.Is(err, fenlock.ErrMaxHold)):
		return value, nil // another process's, for which no lock is needed
	case !found && !loaded:
		var none V
		return none, valueless(err)
	}
	return value, err
}
