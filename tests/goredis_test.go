package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// goRedisNodes returns nodes over clients of go-redis.
func goRedisNodes(t testing.TB, servers []*testserver.Server) []node.Node {
	t.Helper()
	var nodes []node.Node
	for _, s := range servers {
		nodes = append(nodes, goRedisNode(t, s.Addr()))
	}
	return nodes
}

func goRedisNode(t testing.TB, addr string) node.Node {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { client.Close() })
	n, err := goredisnode.New(client)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func goRedisConfig(t testing.TB, servers []*testserver.Server, label string) fenlock.Config {
	return fenlock.Config{Nodes: goRedisNodes(t, servers), TTL: groupTTL, MaxTTL: groupTTL, NodeTimeout: groupTTL / 4,
		Label: label}
}

// A program on go-redis and one on valkey-go are in one group. They hand the lock to each other, in
// the order of the queue and with growing tokens. They name the nodes alike, and the command shows
// and breaks what either has.
func TestGoRedisBesideValkeyGo(t *testing.T) {
	command := testserver.Fenlock(t)
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		own, err := fenlock.New(goRedisConfig(t, servers, "on-go-redis"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { own.Close() })
		cli := func(arguments ...string) string {
			t.Helper()
			run := exec.Command(command, arguments...)
			run.Env = append(os.Environ(), "FENLOCK_NODES="+strings.Join(urls(servers), ","),
				"FENLOCK_MAX_TTL="+groupTTL.String())
			output, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", arguments, err, output)
			}
			return string(output)
		}

		held := acquire(t, own, "orders")
		if said := cli("ls"); !strings.Contains(said, "on-go-redis") || !strings.Contains(said, "orders") ||
			!strings.Contains(said, fmt.Sprint(held.Token())) {
			t.Errorf("ls says\n%s", said)
		}
		var last = held.Token()
		for round := range 3 {
			// The other process waits in the queue, and is notified.
			other := startClient(t, urls(servers), "orders")
			awaitQueueOf(t, servers, lineOf("orders"), 1, 2)
			release(t, held)
			token := other.token()
			if token <= last {
				t.Fatalf("round %d: token %d after %d", round, token, last)
			}
			// And now this one.
			got := make(chan *fenlock.Lock, 1)
			failed := make(chan error, 1)
			go func() {
				lock, err := own.Acquire(bounded(t), "orders")
				if err != nil {
					failed <- err
					return
				}
				got <- lock
			}()
			awaitQueueOf(t, servers, lineOf("orders"), 1, 2)
			other.goOn()
			if said := other.line(); said != "released" {
				t.Fatal(said)
			}
			select {
			case held = <-got:
			case err := <-failed:
				t.Fatal(err)
			}
			if last = held.Token(); last <= token {
				t.Fatalf("round %d: token %d after %d", round, last, token)
			}
		}

		// An operator breaks it, on nodes of either kind, and the holder is told.
		if said := cli("release", "--force", "--yes", "orders"); said == "" {
			t.Error("release says nothing")
		}
		select {
		case <-held.Context().Done():
		case <-time.After(3 * time.Minute):
			t.Fatal("the holder was not told")
		}
		if cause := context.Cause(held.Context()); !errors.Is(cause, fenlock.ErrLost) {
			t.Errorf("the holder was told %v", cause)
		}
		third := newLocker(t, urls(servers))
		lock := acquire(t, third, "orders")
		if lock.Token() <= last {
			t.Errorf("token %d after %d", lock.Token(), last)
		}
		admin, err := admin.New(goRedisNodes(t, servers))
		if err != nil {
			t.Fatal(err)
		}
		if broken, err := admin.ForceRelease(bounded(t), "orders"); err != nil || broken.Token <= lock.Token() {
			t.Errorf("force release through go-redis: %+v, %v", broken, err)
		}
		// What the servers have recorded of the group, both wrote.
		for _, s := range servers {
			for _, other := range servers {
				if members := s.Do("HGET", "fenlock-registers:fenlock:", "members"); !strings.Contains(members, other.Addr()) {
					t.Errorf("%s has the members %q", s.Addr(), members)
				}
			}
		}
	})
}

// Nodes of both kinds in one Locker know each other: one server has one vote.
func TestGoRedisAndValkeyGoOnOneServer(t *testing.T) {
	onGroups(t, 2, func(t *testing.T, servers []*testserver.Server) {
		config, err := newConfig(urls(servers))
		if err != nil {
			t.Fatal(err)
		}
		defer config.Nodes[0].Close()
		config.Nodes = append(config.Nodes, goRedisNode(t, strings.Replace(servers[0].Addr(), "127.0.0.1", "localhost", 1)))
		l, err := fenlock.New(config)
		if err == nil {
			defer l.Close()
			servers[1].Kill()
			_, err = l.TryAcquire(bounded(t), "orders")
		}
		if err == nil || !strings.Contains(err.Error(), "this is the same server as the node") {
			t.Errorf("%v; want that two nodes are one server", err)
		}
	})
}

// What go-redis costs beside valkey-go, on one server and in one run:
//
//	go test -run - -bench GoRedis -benchtime 2s -count 5 .
func BenchmarkGoRedis(b *testing.B) {
	server := group(b, testserver.Kinds(b)[0], 1)[0]
	for _, library := range []string{"valkey-go", "go-redis"} {
		for _, lockers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", library, lockers), func(b *testing.B) {
				config := goRedisConfig(b, []*testserver.Server{server}, "")
				if library == "valkey-go" {
					var err error
					if config, err = newConfig([]string{server.URL()}); err != nil {
						b.Fatal(err)
					}
				}
				l, err := fenlock.New(config)
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				release(b, acquire(b, l, "warm up"))
				var next atomic.Int64
				var all sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				for i := range lockers {
					name := fmt.Sprint("name ", i)
					all.Go(func() {
						for next.Add(1) <= int64(b.N) {
							lock, err := l.Acquire(b.Context(), name)
							if err == nil {
								err = lock.Release(b.Context())
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}
