package fenlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/inside"
	"github.com/fenlock/fenlock/node"
)

// spread takes names that are on several Lockers: what package groups is made of. Its methods are
// those of Locker.
type spread struct {
	of  func(name string) (on, leaving *Locker)
	any *Locker // one of them
}

func init() {
	inside.Spread = func(of, any any) any {
		return spread{of.(func(string) (*Locker, *Locker)), any.(*Locker)}
	}
	inside.Hold = func(ctx context.Context, lock any) (context.Context, func() error, *slog.Logger) {
		k := lock.(*Lock)
		held, release := hold(ctx, k)
		return held, release, k.locker.config.Logger
	}
}

// pairOf returns what takes a name on both Lockers, nil if it is on one.
func (s spread) pairOf(name string, opts []Option) (*Locker, *pair, error) {
	l, leaving := s.of(name)
	if leaving == nil {
		return l, nil, nil
	}
	p, err := newPair(leaving, l, opts)
	return l, p, err
}

func (s spread) Acquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, name, opts, true)
}

func (s spread) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, name, opts, false)
}

func (s spread) acquire(ctx context.Context, name string, opts []Option, waits bool) (*Lock, error) {
	l, p, err := s.pairOf(name, opts)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return l.acquire(ctx, name, opts, l.begin(waits))
	}
	return p.one(ctx, name, waits)
}

func (s spread) Do(ctx context.Context, name string, work func(ctx context.Context, token fence.Token) error,
	opts ...Option) error {
	return do(ctx, s.Acquire, name, work, opts)
}

func (s spread) Lock(ctx context.Context, name string, opts ...Option) (held context.Context, release func(),
	err error) {
	return lockFor(ctx, s.Acquire, name, opts)
}

func (s spread) AcquireAny(ctx context.Context, names []string, opts ...Option) (*Lock, error) {
	_, o, err := s.any.several(names, opts)
	if err != nil {
		return nil, err
	}
	inTime, cancel := within(ctx, &o)
	defer cancel()
	k, err := acquireAny(inTime, names, func(name string) error {
		l, _ := s.of(name)
		return checkNested(ctx, l.places, name, o.Terms)
	}, func(inTime context.Context, name string, waits bool) (*Lock, error) {
		l, p, err := s.pairOf(name, opts)
		switch {
		case err != nil:
			return nil, err
		case p != nil:
			return p.until(inTime, ctx, name, waits)
		}
		o, err := l.config.optionsOf(opts)
		if err != nil {
			return nil, err
		}
		return l.acquireUntil(inTime, ctx, name, o.Terms, l.begin(waits))
	})
	return lengthened(inTime, k, err)
}

// AcquireAll takes names that are on the same Lockers.
func (s spread) AcquireAll(ctx context.Context, names []string, opts ...Option) (*Locks, error) {
	if len(names) == 0 {
		return s.any.AcquireAll(ctx, names, opts...) // which has the error
	}
	l, p, err := s.pairOf(names[0], opts)
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return l.AcquireAll(ctx, names, opts...)
	}
	return p.all(ctx, names, opts)
}

// Exported returns the name of the lock in a text of Lock.Export.
func (s spread) Exported(text string) (name string, err error) {
	e, err := parseExport(text)
	return e.name, err
}

// RaiseTokens makes each later token of two Lockers larger than each that was given before.
func (s spread) RaiseTokens(ctx context.Context, from, to *Locker) error {
	p, err := newPair(from, to, nil)
	if err != nil {
		return err
	}
	return p.everyRegister(ctx)
}

// raisers is how many registers are raised at the same time.
const raisers = 64

// everyRegister takes and releases a lock of each register.
func (p *pair) everyRegister(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	names := make(chan string)
	var all sync.WaitGroup
	for range raisers {
		all.Go(func() {
			for name := range names {
				k, err := p.one(ctx, name, true)
				if err != nil {
					stop(err)
					return
				}
				k.Release(ctx) // the registers are what they are to be, whatever comes of that
			}
		})
	}
	for _, name := range oneOfEachRegister() {
		select {
		case names <- name:
		case <-ctx.Done():
		}
	}
	close(names)
	all.Wait()
	return context.Cause(ctx)
}

// oneOfEachRegister returns a name for each stripe.
func oneOfEachRegister() []string {
	names := make([]string, node.Stripes)
	for i, left := 0, len(names); left > 0; i++ {
		name := fmt.Sprint("fenlock:raise-tokens:", i)
		if stripe := node.Stripe(name); names[stripe] == "" {
			names[stripe] = name
			left--
		}
	}
	return names
}
