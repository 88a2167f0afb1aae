package goredisnode_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/redis/go-redis/v9"
)

// One primary with a replica behind one name, which is what most managed services are, and
// what sentinels make. valkeynode's tests of the same name say more.

const (
	managedTTL    = 500 * time.Millisecond
	managedMaxTTL = 1500 * time.Millisecond
)

// pair is a primary that has served, and its replica, which is in step.
func pair(t *testing.T, kind testserver.Kind) (primary, replica *testserver.Server) {
	t.Helper()
	primary = testserver.Start(t, kind, "repl-diskless-sync-delay 0")
	replica = testserver.Start(t, kind, "repl-diskless-sync-delay 0")
	follow(t, replica, primary)
	primary.MarkAdmitted("fenlock:", managedMaxTTL)
	eventually(t, func() error { // or it would be out for its start alone
		if up := replica.Info("server", "uptime_in_seconds"); up < "3" && len(up) == 1 {
			return errors.New("up for " + up)
		}
		return nil
	})
	return primary, replica
}

func follow(t *testing.T, s, primary *testserver.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s.Do("REPLICAOF", host, port)
	eventually(t, func() error {
		if s.Info("replication", "master_link_status") != "up" {
			return errors.New("not in step yet")
		}
		return nil
	})
}

func managedLocker(t *testing.T, client *redis.Client, with ...goredisnode.Option) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{open(t, client, with...)}, TTL: managedTTL,
		MaxTTL: managedMaxTTL, NodeTimeout: managedTTL / 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// passesOver checks that a lock is lost with its primary, and that no client has it before the
// longest lease is over. That counts from a moment before which no client can have reached the new
// primary; then it goes on by itself.
func passesOver(t *testing.T, held *fenlock.Lock, before time.Time, others ...*fenlock.Locker) {
	t.Helper()
	last := held.Token()
	for i, l := range others {
		var lock *fenlock.Lock
		eventually(t, func() (err error) { lock, err = l.TryAcquire(t.Context(), "orders"); return err })
		if out := time.Since(before); i == 0 && out < managedMaxTTL {
			t.Errorf("taken %v after the promotion: leases of %v may be unknown to the replica", out, managedMaxTTL)
		}
		if left := held.Remaining(); left > 0 {
			t.Errorf("two hold at once: the old one for another %v", left)
		}
		if lock.Token() <= last {
			t.Errorf("token %d after %d", lock.Token(), last)
		}
		last = lock.Token()
		lock.Release(t.Context()) // or it ends by itself: a slow machine takes longer than a request may
	}
	if cause := context.Cause(held.Context()); !errors.Is(cause, fenlock.ErrLost) {
		t.Errorf("the holder was told %v; want ErrLost", cause)
	}
}

// A pool keeps connections that an address led to before. Here they lead to the old primary, which
// is a replica now, while new ones lead to the new primary. Each answer proves whose it is.
func TestPoolWithConnectionsToTwoServers(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, replica := pair(t, kind)
		var target atomic.Pointer[string]
		lead := func(s *testserver.Server) {
			addr := s.Addr()
			target.Store(&addr)
		}
		lead(primary)
		l := managedLocker(t, clientOf(t, "primary.invalid:6379", func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, *target.Load())
			}
		}))
		held, err := l.Acquire(bounded(t), "orders")
		if err != nil {
			t.Fatal(err)
		}
		var many sync.WaitGroup // so that the pool has connections, whatever becomes of the locks
		for i := range 32 {
			many.Go(func() {
				if lock, err := l.TryAcquire(bounded(t), strconv.Itoa(i)); err == nil {
					lock.Release(bounded(t))
				}
			})
		}
		many.Wait()
		replica.Do("REPLICAOF", "NO", "ONE")
		before := time.Now()
		lead(replica)
		follow(t, primary, replica)
		passesOver(t, held, before, l)
	})
}

// A client of sentinels is a node whose address the sentinels know: a failover is a
// promotion behind one address.
func TestSentinels(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		primary, replica := pair(t, kind)
		sentinel := testserver.StartSentinel(t, primary)
		client := func() *redis.Client {
			c := redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: testserver.SentinelMaster, SentinelAddrs: []string{sentinel},
				MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
			})
			t.Cleanup(func() { c.Close() })
			return c
		}
		holder, other := managedLocker(t, client(), goredisnode.WithName("sentinels")), managedLocker(t, client(),
			goredisnode.WithName("sentinels"))
		held, err := holder.Acquire(bounded(t), "orders")
		if err != nil {
			t.Fatal(err)
		}
		primary.Kill()
		before := time.Now()
		passesOver(t, held, before, other, holder)
		if role := replica.Info("replication", "role"); role != "master" {
			t.Errorf("the replica is a %s", role)
		}
	})
}

// The address of node 2 moves to the server of node 1, and the pool notices nothing but that
// idle connections have ended. That server must not vote twice, not even in the first
// request over a new connection.
func TestAddressMovesToAnotherNodesServer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 2)
		for _, s := range servers {
			s.MarkAdmitted("fenlock:", time.Minute)
		}
		var target atomic.Pointer[testserver.Server]
		target.Store(servers[1])
		moving := clientOf(t, "moving.invalid:6379", func(o *redis.Options) {
			o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, target.Load().Addr())
			}
		})
		// The third is down, so that the lock needs both others.
		l := lockerOf(t, time.Minute, open(t, clientOf(t, servers[0].Addr())), open(t, moving),
			open(t, clientOf(t, "127.0.0.1:1")))
		var lock *fenlock.Lock
		eventually(t, func() (err error) { lock, err = l.TryAcquire(bounded(t), "orders"); return err })
		target.Store(servers[0])
		servers[1].Do("CLIENT", "KILL", "TYPE", "normal")
		for i := range 20 {
			if err := lock.Extend(bounded(t)); err == nil {
				t.Fatalf("extension %d was carried by one server of three", i)
			} else if strings.Contains(err.Error(), "the same server") {
				return // the reason is told once the server is looked at again
			}
		}
		t.Error("20 extensions, and none said that two nodes are one server")
	})
}

// Each request of a pool carries the id that the client knows. Once another client has noted that
// the server is not what it was, requests with the old id make no lease. That holds although the
// old data came back with its mark.
func TestStrayLeaseIsNotMade(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		const maxTTL = time.Minute // for so long it is out: longer than the rest takes
		primary, replica := pair(t, kind)
		primary.MarkAdmitted("fenlock:", maxTTL)
		knowing, other := joined(t, primary.Addr(), maxTTL), joined(t, primary.Addr(), maxTTL)
		// answer is the first of a node: on a busy machine, server or replica may be too late for one.
		answer := func(n node.Node, op node.Op, name string) (a node.Answer) {
			eventually(t, func() (err error) {
				a, err = n.Do(bounded(t), request(op, name, "one"))
				name += "'"
				return err
			})
			return a
		}
		if a := answer(knowing, node.Acquire, "warm up"); a.Status != node.Granted {
			t.Fatalf("%+v", a)
		}
		replica.Do("REPLICAOF", "NO", "ONE")
		follow(t, primary, replica)
		primary.Do("REPLICAOF", "NO", "ONE")
		if a := answer(other, node.Acquire, "another name"); a.Status != node.Rejoining || a.Absence.Cause != node.Replaced {
			t.Fatalf("%+v; want it out, since it is another server now", a)
		}
		if a := answer(knowing, node.Extend, "stray"); a.Status != node.Rejoining {
			t.Errorf("%+v; want that it was not carried out", a)
		}
		if got := primary.Do("KEYS", "fenlock:stray*"); got != "[]" {
			t.Errorf("a lease was made: %s", got)
		}
	})
}

// The same scene as valkeynode's: the old primary carries out what lies in its sockets, beside its
// promoted replica. None of its answers counts.
func TestStopPromoteContinue(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for witness, holders := range map[int]int{0: 0, -1: 5} {
			t.Run(strconv.Itoa(witness), func(t *testing.T) {
				t.Parallel()
				primary, replica := pair(t, kind)
				short := func(op node.Op, name, holder string) node.Request {
					r := request(op, name, holder)
					r.TTL = managedTTL
					return r
				}
				old := joined(t, primary.Addr(), managedMaxTTL, goredisnode.WithWitness(witness))
				if a, err := old.Do(bounded(t), short(node.Acquire, "before", "old")); err != nil || a.Status != node.Granted {
					t.Fatalf("%+v, %v", a, err)
				}
				primary.Pause()
				replica.Do("REPLICAOF", "NO", "ONE")
				other := joined(t, replica.Addr(), managedMaxTTL)
				eventually(t, func() error { // until it is admitted
					a, err := other.Do(bounded(t), short(node.Acquire, "first", "other"))
					if err == nil && a.Status != node.Granted {
						err = errors.New(a.Absence.String())
					}
					return err
				})
				granted := make(chan bool)
				for i := range 5 {
					go func() {
						a, err := old.Do(t.Context(), short(node.Acquire, strconv.Itoa(i), "old"))
						granted <- err == nil && a.Status == node.Granted
					}()
				}
				time.Sleep(100 * time.Millisecond) // so that they are in the sockets
				primary.Resume()
				count := 0
				for range 5 {
					if <-granted {
						count++
					}
				}
				if count != holders {
					t.Errorf("the old primary has granted %d locks; want %d", count, holders)
				}
			})
		}
	})
}
