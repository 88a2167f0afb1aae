package fenlockcron

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
)

// Locks is where locks come from: a *fenlock.Locker or *groups.Groups.
type Locks interface {
	Check(name string, opts ...fenlock.Option) error
	TryAcquire(ctx context.Context, name string, opts ...fenlock.Option) (*fenlock.Lock, error)
}

// Jobs makes jobs that run under locks. It is safe for concurrent use.
type Jobs struct {
	ctx    context.Context
	locks  Locks
	logger cron.Logger
	opts   []fenlock.Option
}

// New returns Jobs each run of which keeps its lock for minHold at least, counted from when it
// begins (fenlock.WithMinHold, which says what bounds it). The contexts of jobs are children of
// ctx; when that is done, none is begun. A nil logger is cron.DefaultLogger. The options are for
// each lock. The error matches fenlock.ErrInvalid.
func New(ctx context.Context, locks Locks, minHold time.Duration, logger cron.Logger, opts ...fenlock.Option) (*Jobs,
	error) {
	if ctx == nil || locks == nil {
		return nil, fmt.Errorf("%w: fenlockcron needs a context, and a Locker or Groups, not nil", fenlock.ErrInvalid)
	}
	if logger == nil {
		logger = cron.DefaultLogger
	}
	opts = append([]fenlock.Option{fenlock.WithMinHold(minHold)}, opts...)
	// Every run would be skipped for an option that cannot be used.
	if err := locks.Check("cron", opts...); err != nil {
		return nil, err
	}
	return &Jobs{ctx, locks, logger, opts}, nil
}

// Job returns a job that does work under the lock of name, and nothing if that is held. The context
// that work gets ends when the lock is lost or out of validity; the token is for what it writes to.
// The error matches fenlock.ErrInvalid.
func (j *Jobs) Job(name string, work func(ctx context.Context, token fence.Token) error) (cron.Job, error) {
	if work == nil {
		return nil, fmt.Errorf("%w: the function for the job %q is nil", fenlock.ErrInvalid, name)
	}
	if err := fenlock.CheckName(name); err != nil {
		return nil, err
	}
	return cron.FuncJob(func() { j.run(name, work) }), nil
}

// Wrapper returns what has one job run under the lock of name. The error matches
// fenlock.ErrInvalid.
func (j *Jobs) Wrapper(name string) (cron.JobWrapper, error) {
	if err := fenlock.CheckName(name); err != nil {
		return nil, err
	}
	return func(wrapped cron.Job) cron.Job {
		return cron.FuncJob(func() {
			j.run(name, func(context.Context, fence.Token) error {
				if wrapped == nil {
					return fmt.Errorf("%w: the wrapped job is nil", fenlock.ErrInvalid)
				}
				wrapped.Run()
				return nil
			})
		})
	}, nil
}

// run does not wait: who came later would do it again.
func (j *Jobs) run(name string, work func(ctx context.Context, token fence.Token) error) {
	lock, err := j.locks.TryAcquire(j.ctx, name, j.opts...)
	switch {
	case errors.Is(err, fenlock.ErrHeld):
		j.logger.Info("skip", "job", name, "reason", err)
		return
	case err != nil:
		j.logger.Error(err, "skip", "job", name)
		return
	}
	ctx, cancel := context.WithCancelCause(j.ctx)
	unlink := context.AfterFunc(lock.Context(), func() { cancel(context.Cause(lock.Context())) })
	// Deferred, so that a panic in work does not keep the lock.
	defer func() {
		unlink()
		cancel(nil)
		if err := lock.Release(context.WithoutCancel(j.ctx)); err != nil {
			j.logger.Error(err, "lock", "job", name)
		}
	}()
	if err := work(ctx, lock.Token()); err != nil {
		j.logger.Error(err, "failed", "job", name)
	}
}
