package fenlock

import "context"

// JoinObservers returns an Observer that tells each of several what it hears, in the order
// given: a program's own and one for metrics, for example. What none of them listens to
// costs nothing.
func JoinObservers(observers ...Observer) (joined Observer) {
	for _, o := range observers {
		joined = Observer{
			Acquire: both(joined.Acquire, o.Acquire),
			Wait:    both(joined.Wait, o.Wait),
			Extend:  both(joined.Extend, o.Extend),
			Lost:    both(joined.Lost, o.Lost),
			Release: both(joined.Release, o.Release),
			Request: noContext(joined.Request, o.Request),
			Waiting: waiting(joined.Waiting, o.Waiting),
			Node:    noContext(joined.Node, o.Node),
		}
	}
	return joined
}

func both[E any](first, second func(context.Context, E)) func(context.Context, E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e E) {
		first(ctx, e)
		second(ctx, e)
	}
}

func noContext[E any](first, second func(E)) func(E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(e E) {
		first(e)
		second(e)
	}
}

func waiting(first, second func(context.Context, string, error)) func(context.Context, string, error) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, name string, err error) {
		first(ctx, name, err)
		second(ctx, name, err)
	}
}
