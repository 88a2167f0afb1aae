// Package leader chooses one of several processes as the leader. Lead runs work in the process that
// holds a lock. Follow tells the others which process that is.
package leader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/inside"
	"github.com/fenlock/fenlock/internal/shell"
)

// Locker is a *fenlock.Locker or a *groups.Groups.
type Locker interface {
	Acquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
}

// Lead runs work while this process is the leader: while it holds the lock of name, which
// Config.MaxHold does not bound. The lock's token is its term, and its label tells the others
// where it is (fenlock.WithLabel; Follow).
//
// It waits for its turn as Locker.Acquire does. The context that work gets ends when ctx does and,
// at the latest when another process may lead, when the lock is lost. Lead waits for work to
// return, in any case. If work returns while it leads, of its own accord or because ctx is done,
// Lead releases the lock and returns what work returned. After a loss it re-enters the election;
// the Locker's Logger is told what work returned then, and that work goes on for more than a
// second.
//
// The other errors are Acquire's. WithShared is refused, with fenlock.ErrInvalid.
func Lead(ctx context.Context, l Locker, name string, work func(ctx context.Context, term fence.Token) error,
	opts ...fenlock.Option) error {
	opts = append(slices.Clip(opts), fenlock.WithMaxHold(-1), alone)
	for {
		lock, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			return err
		}
		lost, err := with(ctx, lock, work)
		if lost == nil {
			return err
		}
	}
}

// with returns why the lock was lost, nil if it was not, and what work returned.
func with(ctx context.Context, lock *fenlock.Lock, work func(context.Context, fence.Token) error) (lost, err error) {
	held, release, logger := inside.Hold(ctx, lock)
	logger = logger.With("name", lock.Name(), "term", uint64(lock.Token()))
	stopped := make(chan struct{})
	context.AfterFunc(lock.Context(), func() {
		select {
		case <-stopped:
		case <-time.After(overstay):
			logger.Warn("fenlock: it goes on, although it does not lead any more")
			<-stopped
			logger.Warn("fenlock: it does not go on any more")
		}
	})
	// Deferred, so that a panic in work does not keep the lock.
	defer func() {
		close(stopped)
		if lost = release(); lost != nil && err != nil {
			logger.Warn("fenlock: what led has ended", "error", err)
		}
	}()
	return nil, work(held, lock.Token())
}

// alone refuses to share what is not to be shared.
func alone(o *shell.Options) {
	if o.Terms.Shared {
		o.Failed = fmt.Errorf("%w: a leader does not share its name (WithShared)", fenlock.ErrInvalid)
	}
}

// overstay is how long work may go on after a loss before that is logged.
const overstay = time.Second
