package fenlock

import "context"

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
