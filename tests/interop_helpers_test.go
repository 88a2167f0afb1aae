package tests

import (
	"errors"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// plainGroup starts servers on which fenlock uses the names themselves as keys,
// as other Redlock clients do.
func plainGroup(t *testing.T, kind testserver.Kind, n int) ([]*testserver.Server, *fenlock.Locker) {
	t.Helper()
	return plainGroupFor(t, kind, n, groupTTL)
}

// plainGroupFor is plainGroup for another longest lease.
func plainGroupFor(t *testing.T, kind testserver.Kind, n int, ttl time.Duration) ([]*testserver.Server,
	*fenlock.Locker) {
	t.Helper()
	servers := testserver.Group(t, kind, n)
	for _, s := range servers {
		s.MarkAdmitted("", ttl)
	}
	return servers, newLockerWith(t, urls(servers), []valkeynode.Option{valkeynode.WithPrefix("")},
		func(c *fenlock.Config) {
			c.TTL, c.MaxTTL, c.NodeTimeout = ttl, ttl, ttl/4
		})
}

func plainLocker(t *testing.T, servers []*testserver.Server) *fenlock.Locker {
	return newLockerWith(t, urls(servers), []valkeynode.Option{valkeynode.WithPrefix("")})
}

// heldByAnother checks that fenlock is refused, and knows no label of the holder.
func heldByAnother(t *testing.T, l *fenlock.Locker, name string) {
	t.Helper()
	eventually(t, func() error {
		lock, err := l.TryAcquire(bounded(t), name)
		if errors.Is(err, fenlock.ErrNoQuorum) {
			return err // servers that are busy
		}
		var held *fenlock.HeldError
		if !errors.As(err, &held) || held.HeldBy != "" {
			t.Errorf("fenlock while another Redlock client holds %q: %v, %v; want a HeldError without a label", name, lock, err)
		}
		return nil
	})
}

func redsyncOn(t *testing.T, servers []*testserver.Server) *redsync.Redsync {
	t.Helper()
	var pools []redsyncredis.Pool
	for _, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		t.Cleanup(func() { c.Close() })
		pools = append(pools, goredis.NewPool(c))
	}
	return redsync.New(pools...)
}
