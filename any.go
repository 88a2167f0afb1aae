package fenlock

import (
	"cmp"
	"context"
	"slices"
)

// AcquireAny takes the lock of one name: the first of those that are free, in the order given.
// If all are taken it waits in all their queues, and takes the one that it gets first; one that it
// gets at the same moment is released again. Lock.Name tells which it is. Names that the caller
// holds itself are not waited for: with no others, the error matches ErrNested.
//
// The errors are those of Acquire, about one of the names, or about the list, as
// AcquireAll's. Nothing is held then.
func (l *Locker) AcquireAny(ctx context.Context, names []string, opts ...Option) (*Lock, error) {
	_, o, err := l.several(names, opts)
	if err != nil {
		return nil, err
	}
	inTime, cancel := within(ctx, &o)
	defer cancel()
	k, err := acquireAny(inTime, names, func(name string) error { return checkNested(ctx, l.places, name, o.Terms) },
		func(inTime context.Context, name string, waits bool) (*Lock, error) {
			return l.acquireUntil(inTime, ctx, name, o.Terms, l.begin(waits))
		})
	return lengthened(inTime, k, err)
}

// acquireAny takes one of several locks, by a function that takes one: if it waits as Acquire
// does, otherwise as TryAcquire.
func acquireAny(ctx context.Context, names []string, nested func(name string) error,
	take func(ctx context.Context, name string, waits bool) (*Lock, error)) (*Lock, error) {
	names, err := notNested(names, nested)
	if err != nil {
		return nil, err
	}
	var last error // why a name was refused
	for _, name := range names {
		k, err := take(ctx, name, false)
		if err == nil {
			return k, nil
		}
		last = cmp.Or(refusal(err), last)
		if ctx.Err() != nil || !mayPass(err) {
			return nil, withReason(ctx, name, err, last)
		}
	}
	return waitAny(ctx, names, last,
		func(ctx context.Context, name string) (*Lock, error) { return take(ctx, name, true) })
}

// waitAny waits for all of several locks, by a function that waits for one, and takes the first.
// One that it gets at the same moment is released again. Last is why one was refused before.
func waitAny(ctx context.Context, names []string, last error,
	take func(ctx context.Context, name string) (*Lock, error)) (*Lock, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	type result struct {
		lock     *Lock
		err      error
		returned bool
		panicked any // if not
	}
	results := make(chan result, len(names))
	for _, name := range names {
		go func() {
			var r result
			defer func() { // an observer may panic, and only the caller's goroutine may end by that
				if !r.returned {
					r.panicked = recover()
				}
				results <- r
			}()
			r.lock, r.err = take(waiting, name)
			r.returned = true
		}()
	}
	var first *Lock
	var failed error
	var more []*Lock
	var panicked *result
	for range names {
		r := <-results
		stop() // of the others: this one is decided, for better or worse
		switch {
		case !r.returned:
			panicked = &r
		case r.err != nil && failed == nil:
			failed = r.err
		case r.err == nil && first == nil:
			first = r.lock
		case r.err == nil:
			more = append(more, r.lock)
		}
	}
	if panicked != nil && first != nil {
		more = append(more, first)
	}
	giveUp(ctx, more...)
	switch {
	case panicked != nil:
		panic(panicked.panicked)
	case first != nil:
		return first, nil
	}
	return nil, withReason(ctx, names[0], failed, last)
}

// notNested returns the names that the caller does not hold itself, each once.
func notNested(names []string, nested func(name string) error) (others []string, err error) {
	for _, name := range names {
		if slices.Contains(others, name) {
			continue
		}
		if is := nested(name); is != nil {
			err = is
		} else {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		err = nil
	}
	return others, err
}
