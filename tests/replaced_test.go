package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// locks takes a lock over a client, and reports whether its library takes it for held. It knows of
// so many replicas.
type locks func(ctx context.Context, c redis.UniversalClient, name string, replicas int) bool

// byRedsync is the library itself.
func byRedsync(ctx context.Context, c redis.UniversalClient, name string, _ int) bool {
	mutex := redsync.New(goredis.NewPool(c)).NewMutex(name, redsync.WithExpiry(time.Minute), redsync.WithTries(1))
	return mutex.LockContext(ctx) == nil
}

// asRedisson sends what Redisson's RLock sends (RedissonLock and RedissonBaseLock, with their
// defaults). That is a hash with an expiry, and behind it a WAIT for the replicas that the client
// knows of. It fails if there are such and none has confirmed.
func asRedisson(ctx context.Context, c redis.UniversalClient, name string, replicas int) bool {
	pipe := c.Pipeline()
	lock := pipe.Eval(ctx, `if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return nil`, []string{name}, 60_000, "client:thread")
	var synced *redis.Cmd
	if replicas > 0 {
		synced = pipe.Do(ctx, "WAIT", replicas, 1000)
	}
	pipe.Exec(ctx)
	if !errors.Is(lock.Err(), redis.Nil) {
		return false
	}
	if synced == nil {
		return true
	}
	n, err := synced.Int()
	return err == nil && n > 0
}

// Two libraries in the scenes of replaced servers, as docs/redlock.md lists them. fenlock's tests
// are TestStopPromoteContinue, TestHeirNeedsTheOtherReplicas and TestSlotThatComesToAnother of
// node/valkeynode.
func TestReplacedServers(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		for _, library := range []struct {
			name    string
			lock    locks
			holders [3]int // in the scenes below
		}{
			{"redsync", byRedsync, [3]int{2, 2, 2}},
			{"Redisson", asRedisson, [3]int{1, 2, 2}},
		} {
			t.Run(library.name, func(t *testing.T) {
				t.Parallel()
				for i, scene := range []struct {
					name string
					play func(t *testing.T, kind testserver.Kind, lock locks) (holders int)
				}{
					{"stop, promote, continue: one replica", stopPromoteContinue(1)},
					{"stop, promote, continue: two replicas", stopPromoteContinue(2)},
					{"a slot comes to an empty heir", emptyHeir},
				} {
					holders := scene.play(t, kind, library.lock)
					t.Logf("%s, %s: %d holders", library.name, scene.name, holders)
					if holders != library.holders[i] {
						t.Errorf("%s, %s: %d holders; want %d", library.name, scene.name, holders, library.holders[i])
					}
				}
			})
		}
	})
}

// operate returns a client that may do all. It sends no command twice, and gives none up while the
// server is stopped.
func operate(s *testserver.Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), Username: testserver.Operator, Password: "any", MaxRetries: -1,
		ReadTimeout: time.Minute})
}

// stopPromoteContinue is the scene with so many replicas, of which one is promoted.
func stopPromoteContinue(replicas int) func(t *testing.T, kind testserver.Kind, lock locks) int {
	return func(t *testing.T, kind testserver.Kind, lock locks) (holders int) {
		primary := testserver.Start(t, kind, "repl-diskless-sync-delay 0")
		host, port, _ := strings.Cut(primary.Addr(), ":")
		var heir *testserver.Server
		for range replicas {
			heir = testserver.Start(t, kind)
			heir.Do("REPLICAOF", host, port)
		}
		eventually(t, func() error {
			if n := strings.Count(primary.Do("INFO", "replication"), "state=online"); n != replicas {
				return fmt.Errorf("%d replicas online", n)
			}
			return nil
		})
		old := operate(primary)
		defer old.Close()
		tries := 0
		eventually(t, func() error { // a replica that has just come may confirm late
			if tries++; !lock(bounded(t), old, fmt.Sprint("before/", tries), replicas) {
				return errors.New("no lock while all is well")
			}
			return nil
		})
		primary.Pause()
		heir.Do("REPLICAOF", "NO", "ONE")
		after := operate(heir)
		defer after.Close()
		if lock(bounded(t), after, "orders/42", 0) {
			holders++
		}
		held := make(chan bool)
		go func() { held <- lock(bounded(t), old, "orders/42", replicas) }()
		time.Sleep(100 * time.Millisecond) // so that it is in the socket
		primary.Resume()
		if <-held {
			holders++
		}
		return holders
	}
}

// emptyHeir is the scene in which a member without the keys gets a slot, since its owner is dead.
func emptyHeir(t *testing.T, kind testserver.Kind, lock locks) (holders int) {
	all := testserver.Cluster(t, kind, 3, "cluster-require-full-coverage no")
	owner := testserver.Owner("orders/42", all...)
	heir := all[0]
	if heir == owner {
		heir = all[1]
	}
	for _, at := range []*testserver.Server{owner, heir} {
		if at == heir {
			slot := heir.Do("CLUSTER", "KEYSLOT", "orders/42")
			owner.Kill()
			heir.Do("CLUSTER", "SETSLOT", slot, "NODE", heir.Do("CLUSTER", "MYID"))
			eventually(t, func() error {
				heir.Do("CLUSTER", "DELSLOTS", slot)
				heir.Do("CLUSTER", "ADDSLOTS", slot)
				heir.Do("CLUSTER", "BUMPEPOCH")
				if said := heir.Do("EXISTS", "orders/42"); said != "0" {
					return errors.New(said)
				}
				return nil
			})
		}
		c := operate(at)
		defer c.Close()
		if lock(bounded(t), c, "orders/42", 0) {
			holders++
		}
	}
	return holders
}
