package fenlock

import "context"

// Observer is told what happens to the callers of a Locker, for logs and
// metrics. Each field may be nil. The functions are called from many goroutines
// at once, each in that of its caller, and must return soon: the caller waits for
// them, even if it has the lock by then.
type Observer struct {
	// Waiting is called when an Acquire begins to wait, and again when the reason
	// changes: another holder, or another number of waiters ahead. Ctx is the
	// one that was passed to Acquire. Why is a *HeldError or a *QuorumError, the
	// newest if there were several since the last call.
	Waiting func(ctx context.Context, name string, why error)
}
