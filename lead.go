package fenlock

import (
	"context"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// Lead runs work while this process is the leader: while it holds the lock of name, which
// Config.MaxHold does not bound. The lock's token is its term, and its label tells the others
// where it is (WithLabel; Admin.Follow).
//
// It waits for its turn as Acquire does. The context that work gets ends when ctx does and, at
// the latest when another one may lead, when the lock is lost. Lead waits for work to return, in
// any case: what work returns while it leads, of its own accord or because ctx is done, is what
// Lead returns, after it has released the lock. After a loss it stands again; what
// work returned then is logged, and so is work that goes on for a second.
//
// The other errors are Acquire's.
func (l *Locker) Lead(ctx context.Context, name string, work func(ctx context.Context, term fence.Token) error, opts ...Option) error {
	return lead(ctx, l.Acquire, name, work, opts)
}

func lead(ctx context.Context, acquire acquirer, name string, work func(ctx context.Context, term fence.Token) error, opts []Option) error {
	opts = append(slices.Clip(opts), WithMaxHold(-1), leadsAlone)
	for {
		lock, err := acquire(ctx, name, opts...)
		if err != nil {
			return err
		}
		lost, err := leadWith(ctx, lock, work)
		if lost == nil {
			return err
		}
		if err != nil {
			lock.locker.config.Logger.Warn("fenlock: what led has ended", "name", name, "error", err)
		}
	}
}

// leadsAlone refuses to share what is not to be shared.
func leadsAlone(o *options) {
	if o.terms.Shared {
		o.failed = invalidf("who shares a name (WithShared) does not lead")
	}
}

// overstay is how long work may go on after a loss before that is logged.
const overstay = time.Second

// leadWith returns why the lock was lost, nil if it was not, and what work returned.
func leadWith(ctx context.Context, lock *Lock, work func(context.Context, fence.Token) error) (lost, err error) {
	held, release := hold(ctx, lock)
	logger := lock.locker.config.Logger.With("name", lock.name, "term", uint64(lock.Token()))
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
		lost = release()
	}()
	return nil, work(held, lock.Token())
}
