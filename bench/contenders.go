package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bsm/redislock"
	"github.com/fenlock/fenlock"
	"github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"
	"github.com/valkey-io/valkey-go/valkeylock"
)

// contender is a lock that is measured.
type contender struct {
	name string
	what string // how it is set up, for the reader
	open func(b *bench) (client, error)
}

// client is one process's worth of a contender: it shares no connection with
// other clients.
type client interface {
	// acquire waits until it has the lock, or until ctx is done.
	acquire(ctx context.Context, name string) (release func() error, err error)
	close()
}

var (
	fenlocks    = contender{"fenlock", "majority of the servers, with fencing tokens", openFenlock}
	redsyncs    = contender{"redsync", "majority of the servers, over go-redis with its defaults; default options, except for the TTL and that it never gives up", openRedsync}
	redsyncs2   = contender{"redsync/valkey-go", "the same over valkey-go with its defaults, one client per server", openRedsyncValkey}
	etcds       = contender{"etcd", "concurrency.Mutex, one session per client; as many members as the others have servers, --unsafe-no-fsync, since no other server persists either", openEtcd}
	redislocks  = contender{"redislock", "one key on ONE server, over go-redis with its defaults; cannot wait", openRedislock}
	floors      = contender{"floor", "no lock: fenlock's scripts on raw sockets; an answer is a majority's", openFloor(majority)}
	floorsOfAll = contender{"floor/all", "the same; an answer is all servers'", openFloor(all)}
	// One client of valkeylock is connected to one server (or cluster), and its
	// majority is one of keys there: if that server is gone, so is the lock.
	valkeylocks   = contender{"valkeylock", "majority of 3 keys on ONE server, a weaker thing; its default, with NoLoopTracking", openValkeylock(2)}
	valkeylockOne = contender{"valkeylock/1", "one key on ONE server, as its documentation advises for one", openValkeylock(1)}
)

var (
	// everybody is who is measured, in the order of the tables.
	everybody = []contender{fenlocks, redsyncs, redsyncs2, etcds, valkeylocks, valkeylockOne, redislocks, floors, floorsOfAll}
	// anybody is also who is compared with fenlock by itself.
	anybody = slices.Concat(everybody, listeners[1:], everyKindOnly)
	// who can wait for a lock that somebody else has. Redsync polls, whatever it
	// is connected with.
	patient = []contender{fenlocks, redsyncs, valkeylocks, valkeylockOne}
)

// present returns those whose servers are at hand.
func (b *bench) present(who []contender) []contender {
	return slices.DeleteFunc(slices.Clone(who), func(c contender) bool { return c.name == etcds.name && b.etcd == nil })
}

// openTries is how often a client is opened that hangs the first time it is used.
const openTries = 3

// openAll opens n clients, connected and past whatever they do only once. What
// was opened is closed if that fails.
func openAll(ctx context.Context, b *bench, c contender, n int) (clients []client, err error) {
	defer func() {
		if err != nil {
			closeAll(clients)
			clients = nil
		}
	}()
	for i := range n {
		var cl client
		for try := 1; ; try++ {
			if cl, err = c.open(b); err != nil {
				return clients, fmt.Errorf("%s: %w", c.name, err)
			}
			err = within(ctx, b.giveUp, func(ctx context.Context) error {
				_, err := measureCycle(ctx, cl, fmt.Sprint("bench:warm:", i), 3)
				return err
			})
			if err == nil {
				break
			}
			// One that hangs is not closed: that might hang too.
			if !errors.Is(err, errGaveUp) || try == openTries {
				return append(clients, cl), fmt.Errorf("%s: %w", c.name, err)
			}
		}
		clients = append(clients, cl)
	}
	return clients, nil
}

func closeAll(clients []client) {
	for _, c := range clients {
		c.close()
	}
}

// library is a client that is made of functions.
type library struct {
	lock func(ctx context.Context, name string) (release func() error, err error)
	end  func()
}

func (l library) acquire(ctx context.Context, name string) (func() error, error) {
	return l.lock(ctx, name)
}

func (l library) close() { l.end() }

func openFenlock(b *bench) (client, error) { return openObserved(b, fenlock.Observer{}) }

func openObserved(b *bench, o fenlock.Observer) (client, error) {
	l, err := newLocker(b.urls(), b.ttl, o)
	return ofLocker(l), err
}

func ofLocker(l *fenlock.Locker) library {
	return library{func(ctx context.Context, name string) (func() error, error) {
		lock, err := l.Acquire(ctx, name)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, func() { l.Close() }}
}

func openValkeylock(keys int32) func(b *bench) (client, error) {
	return func(b *bench) (client, error) {
		l, err := valkeylock.NewLocker(valkeylock.LockerOption{
			ClientOption:   valkey.ClientOption{InitAddress: []string{b.servers[0].Addr()}},
			KeyPrefix:      fmt.Sprint("valkeylock", keys), // clients of one key space must agree on the majority
			KeyMajority:    keys,
			KeyValidity:    b.theirTTL(),
			NoLoopTracking: true,
		})
		return library{func(ctx context.Context, name string) (func() error, error) {
			_, cancel, err := l.WithContext(ctx, name)
			return func() error { cancel(); return nil }, err // it returns when the keys are gone
		}, func() { l.Close() }}, err
	}
}

// openRedislock does not wait: by default Obtain tries once, and it is only
// measured where nobody else has the lock.
func openRedislock(b *bench) (client, error) {
	r := redis.NewClient(&redis.Options{Addr: b.addresses()[0]})
	l := redislock.New(r)
	return library{func(ctx context.Context, name string) (func() error, error) {
		lock, err := l.Obtain(ctx, "redislock:"+name, b.theirTTL(), nil)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, func() { r.Close() }}, nil
}

// limited returns a context that ends after d, but has no deadline: valkeylock
// would shorten its leases to one.
func limited(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(errGaveUp) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// within calls f with a context that is limited, and returns errGaveUp if that has ended.
func within(ctx context.Context, d time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := limited(ctx, d)
	defer cancel()
	err := f(ctx)
	if context.Cause(ctx) == errGaveUp {
		return errGaveUp
	}
	return err
}

// grace is how long a contender may take to notice that its context is done.
const grace = 10 * time.Second

// returned waits for something that should end when ctx is done, at the latest,
// and reports whether it has.
func returned(ctx context.Context, wait func()) bool {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	case <-time.After(grace):
		return false
	}
}

var errGaveUp = errors.New("gave up waiting for it")
