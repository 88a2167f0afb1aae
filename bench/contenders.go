package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/bsm/redislock"
	"github.com/fenlock/fenlock"
	"github.com/redis/go-redis/v9"
	"github.com/valkey-io/valkey-go"
	"github.com/valkey-io/valkey-go/valkeylock"
)

var (
	fenlocks  = contender{"fenlock", "majority of the servers, with fencing tokens", openFenlock}
	redsyncs  = contender{"redsync", "majority of the servers, over go-redis with its defaults; default options, except for the TTL and that it never gives up", openRedsync}
	redsyncs2 = contender{"redsync/valkey-go", "the same over valkey-go with its defaults, one client per server",
		openRedsyncValkey}
	etcds      = contender{"etcd", "concurrency.Mutex, one session per client; as many members as the others have servers, --unsafe-no-fsync, since no other server persists either", openEtcd}
	redislocks = contender{"redislock", "one key on ONE server, over go-redis with its defaults; cannot wait",
		openRedislock}
	floors = contender{"floor", "no lock: fenlock's scripts on raw sockets; an answer is a majority's",
		openFloor(majority)}
	floorsOfAll = contender{"floor/all", "the same; an answer is all servers'", openFloor(all)}
	// One client of valkeylock is connected to one server (or cluster), and its majority is one of
	// keys there. If that server is gone, so is the lock.
	valkeylocks = contender{"valkeylock",
		"majority of 3 keys on ONE server, a weaker thing; its default, with NoLoopTracking", openValkeylock(2)}
	valkeylockOne = contender{"valkeylock/1", "one key on ONE server, as its documentation advises for one",
		openValkeylock(1)}
)

var (
	// entrants is all that are measured, in the order of the tables.
	entrants = []contender{fenlocks, redsyncs, redsyncs2, etcds, valkeylocks, valkeylockOne, redislocks, floors,
		floorsOfAll}
	// patient can wait for a lock that another client has. Redsync polls, whatever it is
	// connected with.
	patient = []contender{fenlocks, redsyncs}
)

// present returns those whose servers are at hand.
func (b *bench) present(who []contender) []contender {
	return slices.DeleteFunc(slices.Clone(who), func(c contender) bool { return c.name == etcds.name && b.etcd == nil })
}

func openFenlock(b *bench) (client, error) { return openObserved(b, fenlock.Observer{}) }

func openObserved(b *bench, o fenlock.Observer) (client, error) {
	l, err := newLocker(b.urls(), b.ttl, o)
	return ofLocker(l), err
}

func ofLocker(l *fenlock.Locker) library {
	return ofLocks(func(ctx context.Context, name string) (*fenlock.Lock, error) { return l.Acquire(ctx, name) }, l)
}

// ofLocks is a client whose locks have a Release that takes a context.
func ofLocks[L interface{ Release(context.Context) error }](take func(ctx context.Context, name string) (L, error),
	opened io.Closer) library {
	return library{func(ctx context.Context, name string) (func() error, error) {
		lock, err := take(ctx, name)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, func() { opened.Close() }}
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

// openRedislock does not wait: by default Obtain tries once, and it is only measured where no other
// client has the lock.
func openRedislock(b *bench) (client, error) {
	r := redis.NewClient(&redis.Options{Addr: b.addresses()[0]})
	l := redislock.New(r)
	return ofLocks(func(ctx context.Context, name string) (*redislock.Lock, error) {
		return l.Obtain(ctx, "redislock:"+name, b.theirTTL(), nil)
	}, r), nil
}
