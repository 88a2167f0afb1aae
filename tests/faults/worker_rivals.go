//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// openRedis connects to a server as the rivals need it: a request is sent once
// and takes no longer than fenlock's, and a context ends it.
func openRedis(address string, c workerConfig) (*redis.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(&redis.Options{
		Addr: u.Host, MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: c.NodeTimeout, ReadTimeout: c.NodeTimeout, WriteTimeout: c.NodeTimeout,
	}), nil
}

// redsyncLocker is redsync over all nodes, with its default options but for the
// TTL, the time that a node is given, and that it waits as long as it may.
type redsyncLocker struct {
	config  workerConfig
	redis   []*redis.Client
	redsync *redsync.Redsync
}

func openRedsync(c workerConfig) (locker, error) {
	l := &redsyncLocker{config: c}
	var pools []redsyncredis.Pool
	for _, address := range c.URLs {
		r, err := openRedis(address, c)
		if err != nil {
			return nil, err
		}
		l.redis, pools = append(l.redis, r), append(pools, goredis.NewPool(r))
	}
	l.redsync = redsync.New(pools...)
	return l, nil
}

func (l *redsyncLocker) mutex(name string) *redsync.Mutex {
	return l.redsync.NewMutex(key(name), redsync.WithExpiry(l.config.TTL), redsync.WithTries(math.MaxInt),
		redsync.WithTimeoutFactor(l.config.NodeTimeout.Seconds()/l.config.TTL.Seconds()))
}

func (l *redsyncLocker) try(ctx context.Context, name string) (lease, error) {
	m := l.mutex(name)
	return l.held(m, m.TryLockContext(ctx))
}

func (l *redsyncLocker) acquire(ctx context.Context, name string) (lease, error) {
	m := l.mutex(name)
	return l.held(m, m.LockContext(ctx))
}

func (l *redsyncLocker) held(m *redsync.Mutex, err error) (lease, error) {
	if err != nil {
		return nil, err
	}
	return newKeptLease(l.config.TTL, kept{
		until: boottimeOf(m.Until()),
		extend: func(ctx context.Context) (time.Duration, error) {
			if ok, err := m.ExtendContext(ctx); !ok {
				return 0, errors.Join(errors.New("extended on no quorum"), err)
			}
			return boottimeOf(m.Until()), nil
		},
		release: func(ctx context.Context) error {
			ok, err := m.UnlockContext(ctx)
			if ok {
				return nil
			}
			return errors.Join(errors.New("unlocked on no quorum"), err)
		},
	}), nil
}

func (l *redsyncLocker) close() error {
	var errs []error
	for _, r := range l.redis {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// redislockLocker is redislock on the first node, the only one that it can use.
// It has no fencing token: what it calls so is a random word.
type redislockLocker struct {
	config workerConfig
	redis  *redis.Client
	client *redislock.Client
}

func openRedislock(c workerConfig) (locker, error) {
	r, err := openRedis(c.URLs[0], c)
	if err != nil {
		return nil, err
	}
	return &redislockLocker{c, r, redislock.New(r)}, nil
}

// try counts the validity of the lock from before the request that obtained it.
func (l *redislockLocker) try(ctx context.Context, name string) (lease, error) {
	start := clock.Now()
	lock, err := l.client.Obtain(ctx, key(name), l.config.TTL, nil)
	if err != nil {
		return nil, err
	}
	return l.held(start, lock), nil
}

// acquire tries again every 100 ms. The library can do that too, but does not
// tell when the attempt began that it obtained the lock in.
func (l *redislockLocker) acquire(ctx context.Context, name string) (lease, error) {
	for {
		held, err := l.try(ctx, name)
		if !errors.Is(err, redislock.ErrNotObtained) {
			return held, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

func (l *redislockLocker) held(start time.Duration, lock *redislock.Lock) lease {
	return newKeptLease(l.config.TTL, kept{
		until: start + l.config.TTL,
		extend: func(ctx context.Context) (time.Duration, error) {
			start := clock.Now()
			return start + l.config.TTL, lock.Refresh(ctx, l.config.TTL, nil)
		},
		release: lock.Release,
	})
}

func (l *redislockLocker) close() error { return l.redis.Close() }

// key is where fenlock has its lease of a name, too.
func key(name string) string { return valkeynode.DefaultPrefix + name }

// boottimeOf translates a time of Go's monotonic clock.
func boottimeOf(t time.Time) time.Duration {
	now := clock.Now()
	return now + time.Until(t)
}

// kept is what a rival's lock can do.
type kept struct {
	number  fence.Token
	until   time.Duration // end of validity, on the boottime clock
	extend  func(ctx context.Context) (until time.Duration, err error)
	release func(ctx context.Context) error
}

// keptLease does for a rival's lock what its user has to: it extends it at a
// third of its TTL, and tells when its validity ends.
type keptLease struct {
	kept
	ctx    context.Context
	cancel context.CancelCauseFunc

	calls sync.Mutex // held during a request
	mu    sync.Mutex // guards until
}

var (
	errExpired = errors.New("its validity has ended")
	errLetGo   = errors.New("released")
)

func newKeptLease(ttl time.Duration, k kept) *keptLease {
	l := &keptLease{kept: k}
	if l.until == 0 {
		l.until = clock.Now() + ttl
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.keep(ttl)
	return l
}

func (l *keptLease) keep(ttl time.Duration) {
	next := clock.Now() + ttl/3
	for {
		left := l.remaining()
		if left == 0 {
			l.cancel(errExpired)
			return
		}
		timer := time.NewTimer(min(left, max(0, next-clock.Now())))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			return
		}
		if clock.Now() < next {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, min(left, ttl/3))
		l.renew(ctx)
		cancel()
		next = clock.Now() + ttl/3
	}
}

func (l *keptLease) renew(ctx context.Context) error {
	l.calls.Lock()
	defer l.calls.Unlock()
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if l.kept.extend == nil {
		return nil
	}
	until, err := l.kept.extend(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
	return nil
}

func (l *keptLease) token() fence.Token       { return l.number }
func (l *keptLease) context() context.Context { return l.ctx }

func (l *keptLease) remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return 0
	}
	return max(0, l.until-clock.Now())
}

func (l *keptLease) extend(ctx context.Context) error { return l.renew(ctx) }

func (l *keptLease) release(ctx context.Context) error {
	lost := l.ctx.Err() != nil
	l.cancel(errLetGo)
	l.calls.Lock()
	defer l.calls.Unlock()
	var err error
	if l.kept.release != nil {
		err = l.kept.release(ctx)
	}
	if lost {
		err = errors.Join(fmt.Errorf("it was lost before: %w", context.Cause(l.ctx)), err)
	}
	return err
}
