package library

import (
	"context"
	"errors"
	"math"
	"net/url"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// openRedis connects to a server as the rivals need it. A request is sent once and takes no longer
// than fenlock's, and a context ends it.
func openRedis(address string, c Config) (*redis.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(&redis.Options{
		Addr: u.Host, MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: c.NodeTimeout, ReadTimeout: c.NodeTimeout, WriteTimeout: c.NodeTimeout,
	}), nil
}

// redsyncLocker is redsync over all nodes, with its default options but for the TTL and the time
// that a node is given. It waits as long as it may.
type redsyncLocker struct {
	config  Config
	redis   []*redis.Client
	redsync *redsync.Redsync
}

func openRedsync(c Config) (Locker, error) {
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

func (l *redsyncLocker) TryAcquire(ctx context.Context, name string) (Lease, error) {
	m := l.mutex(name)
	return l.held(m, m.TryLockContext(ctx))
}

func (l *redsyncLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	m := l.mutex(name)
	return l.held(m, m.LockContext(ctx))
}

func (l *redsyncLocker) held(m *redsync.Mutex, err error) (Lease, error) {
	if err != nil {
		return nil, err
	}
	return newRenewed(l.config.TTL, rival{
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

func (l *redsyncLocker) Close() error {
	var errs []error
	for _, r := range l.redis {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// redislockLocker is redislock on the first node, the only one that it can use.
// It has no fencing token: what it calls so is a random word.
type redislockLocker struct {
	config Config
	redis  *redis.Client
	client *redislock.Client
}

func openRedislock(c Config) (Locker, error) {
	r, err := openRedis(c.URLs[0], c)
	if err != nil {
		return nil, err
	}
	return &redislockLocker{c, r, redislock.New(r)}, nil
}

// TryAcquire counts the validity of the lock from before the request that obtained it.
func (l *redislockLocker) TryAcquire(ctx context.Context, name string) (Lease, error) {
	start := clock.Now()
	lock, err := l.client.Obtain(ctx, key(name), l.config.TTL, nil)
	if err != nil {
		return nil, err
	}
	return l.held(start, lock), nil
}

// Acquire tries again every 100 ms. The library can do that too, but does not
// tell when the attempt began that it obtained the lock in.
func (l *redislockLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	for {
		held, err := l.TryAcquire(ctx, name)
		if !errors.Is(err, redislock.ErrNotObtained) {
			return held, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *redislockLocker) held(start time.Duration, lock *redislock.Lock) Lease {
	return newRenewed(l.config.TTL, rival{
		until: start + l.config.TTL,
		extend: func(ctx context.Context) (time.Duration, error) {
			start := clock.Now()
			return start + l.config.TTL, lock.Refresh(ctx, l.config.TTL, nil)
		},
		release: lock.Release,
	})
}

func (l *redislockLocker) Close() error { return l.redis.Close() }

// key is where fenlock has its lease of a name, too.
func key(name string) string { return valkeynode.DefaultPrefix + name }

// boottimeOf translates a time of Go's monotonic clock.
func boottimeOf(t time.Time) time.Duration {
	now := clock.Now()
	return now + time.Until(t)
}
