package tests

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/etcdnode"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/valkey-io/valkey-go"
	"github.com/valkey-io/valkey-go/valkeylock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// changeByBoth changes instances in the two steps of docs/migration.md, for libraries whose keys
// are others. They go first to both locks, the old one before fenlock's, then to fenlock's alone.
func changeByBoth(t *testing.T, old, ours taking) {
	both := func(ctx context.Context) (locked, error) {
		first, err := old(ctx)
		if err != nil {
			return locked{}, err
		}
		second, err := ours(ctx)
		if err != nil {
			return locked{}, errors.Join(err, first.release(context.WithoutCancel(ctx)))
		}
		return locked{
			func(ctx context.Context) error { return errors.Join(first.extend(ctx), second.extend(ctx)) },
			func(ctx context.Context) error { return errors.Join(second.release(ctx), first.release(ctx)) },
		}, nil
	}
	t.Run("to both", func(t *testing.T) { change(t, old, both) })
	t.Run("to fenlock's", func(t *testing.T) { change(t, both, ours) })
}

// valkeylockOn is locks of valkeylock, which rueidislock is too but for its names, of three
// clients.
func valkeylockOn(t *testing.T, s *testserver.Server, majority int32) taking {
	t.Helper()
	var all []valkeylock.Locker
	for range 3 {
		l, err := valkeylock.NewLocker(valkeylock.LockerOption{KeyMajority: majority, ClientOption: valkey.ClientOption{
			InitAddress: []string{s.Addr()}, ForceSingleClient: true, Username: testserver.Operator, Password: "any",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		all = append(all, l)
	}
	var turn atomic.Int64
	return func(ctx context.Context) (locked, error) {
		// Its waiters miss a notification now and then, and wait for ever: the caller asks again.
		waits, cancel := context.WithCancel(ctx)
		enough := time.AfterFunc(time.Second, cancel)
		held, release, err := all[int(turn.Add(1))%len(all)].WithContext(waits, "orders/42")
		if !enough.Stop() && err == nil {
			release()
			err = waits.Err()
		}
		if err != nil {
			cancel()
			return locked{}, err
		}
		// Its context is how it tells a loss.
		kept := func(context.Context) error {
			if ctx.Err() != nil {
				return nil // the test's end
			}
			return held.Err()
		}
		return locked{kept, func(ctx context.Context) error {
			defer cancel()
			defer release()
			return kept(ctx)
		}}, nil
	}
}

// With a majority of one, valkeylock has one key on one server, and fenlock has the same with its
// prefix.
func TestMigrationFromValkeylockOnItsKey(t *testing.T) {
	server := testserver.Start(t, testserver.Kinds(t)[0])
	ours := patient(t, []*testserver.Server{server}, "valkeylock:0:")
	change(t, valkeylockOn(t, server, 1), takesFenlock(ours))
}

// By default it has three keys on one server, which are not fenlock's nodes.
func TestMigrationFromValkeylock(t *testing.T) {
	servers := testserver.Group(t, testserver.Kinds(t)[0], 3)
	changeByBoth(t, valkeylockOn(t, servers[0], 2), takesFenlock(patient(t, servers, valkeynode.DefaultPrefix)))
}

// etcd's own package concurrency, and fenlock on the same cluster.
func TestMigrationFromEtcd(t *testing.T) {
	cluster := testserver.StartEtcd(t, 1)
	node, err := etcdnode.Open("etcd://" + cluster.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node}, NewServers: true,
		NodeTimeout: fenlock.DefaultTTL / 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	var sessions []*concurrency.Session // one for each process, as a mutex belongs to a session
	for range 6 {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{cluster.Addrs()}, DialTimeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		session, err := concurrency.NewSession(client)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, session)
	}
	free := make(chan *concurrency.Session, len(sessions))
	for _, s := range sessions {
		free <- s
	}
	changeByBoth(t, func(ctx context.Context) (locked, error) {
		s := <-free
		m := concurrency.NewMutex(s, "orders/42")
		if err := m.Lock(ctx); err != nil {
			free <- s
			return locked{}, err
		}
		lasts := func(context.Context) error {
			select {
			case <-s.Done():
				return errors.New("the session has ended")
			default:
				return nil
			}
		}
		return locked{lasts, func(ctx context.Context) error {
			defer func() { free <- s }()
			return errors.Join(lasts(ctx), m.Unlock(ctx))
		}}, nil
	}, takesFenlock(ours))
}
