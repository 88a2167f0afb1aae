package fenlock

import (
	"context"
	"errors"
)

// Observer is told what happens to the callers of a Locker, for logs and
// metrics. Each field may be nil. The functions are called from many goroutines
// at once, and must return soon: all callers of the same name wait for them. They
// must not wait for the Locker themselves.
type Observer struct {
	// Waiting is called when an Acquire begins to wait, and again when the reason
	// changes: another holder, or another number of waiters ahead. Ctx is the
	// one that was passed to Acquire. Why is a *HeldError or a *QuorumError.
	Waiting func(ctx context.Context, name string, why error)
}

// observeWaiting tells the observer, unless nothing has changed since it was told
// before.
func (l *Locker) observeWaiting(ctx context.Context, name string, why, before error) {
	if l.config.Observer.Waiting == nil || sameReason(why, before) {
		return
	}
	l.config.Observer.Waiting(ctx, name, why)
}

func sameReason(a, b error) bool {
	var x, y *HeldError
	if errors.As(a, &x) && errors.As(b, &y) {
		return x.HeldBy == y.HeldBy && x.Ahead == y.Ahead
	}
	return errors.Is(a, ErrNoQuorum) && errors.Is(b, ErrNoQuorum)
}
