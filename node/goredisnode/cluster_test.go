package goredisnode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/nodetest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A cluster by its client is one node: what is kept is in one slot. valkeynode's tests of clusters
// say more.
const (
	clusterPrefix    = "{fenlock}fenlock:"
	clusterRegisters = "fenlock-registers:" + clusterPrefix
)

// slotted is a cluster of three primaries, and of the replica of each if there are to be.
type slotted struct {
	t *testing.T
	testserver.Slot
}

// slotOf is the slot of the locks.
func slotOf(all []*testserver.Server) testserver.Slot {
	return testserver.Slot{Key: clusterRegisters, All: all}
}

func slottedCluster(t *testing.T, kind testserver.Kind, replicas bool) *slotted {
	t.Helper()
	config := []string{"cluster-require-full-coverage no", "cluster-allow-replica-migration no"}
	c := &slotted{t, slotOf(testserver.Cluster(t, kind, 3, config...))}
	if replicas {
		c.All = append(c.All, testserver.AddReplicas(t, c.All, config...)...)
	}
	c.allow(clusterPrefix)
	c.Owner().MarkAdmitted(clusterPrefix, managedMaxTTL)
	return c
}

// allow gives the least permissions that a cluster client needs.
func (c *slotted) allow(prefix string) {
	c.t.Helper()
	rules, err := respnode.Permissions(prefix)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range c.All {
		user := []string{"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all", "+cluster|slots"}
		s.Do(append(user, rules...)...)
	}
}

func clusterOptions(servers ...*testserver.Server) *redis.ClusterOptions {
	opt := &redis.ClusterOptions{ContextTimeoutEnabled: true, DialerRetries: 1, ReadTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
	for _, s := range servers {
		opt.Addrs = append(opt.Addrs, s.Addr())
	}
	return opt
}

func clusterClient(t *testing.T, servers ...*testserver.Server) *redis.ClusterClient {
	client := redis.NewClusterClient(clusterOptions(servers...))
	t.Cleanup(func() { client.Close() })
	return client
}

func (c *slotted) locker() *fenlock.Locker {
	c.t.Helper()
	n := open(c.t, clusterClient(c.t, c.All...))
	l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, TTL: managedTTL, MaxTTL: managedMaxTTL,
		NodeTimeout: managedTTL / 4})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	return l
}

func TestConformanceOfACluster(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false)
		opened := 0
		nodetest.Run(t, func(t *testing.T) nodetest.Harness {
			opened++
			prefix := fmt.Sprintf("test-%d:", opened)
			c.allow("{fenlock}" + prefix)
			c.Owner().MarkAdmitted("{fenlock}"+prefix, time.Hour)
			open := func(servers ...*testserver.Server) node.Node {
				n := open(t, clusterClient(t, servers...), goredisnode.WithPrefix(prefix))
				if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour}); err != nil {
					t.Fatal(err)
				}
				return n
			}
			return nodetest.Harness{Node: open(c.All...), Other: open(c.Other(c.Owner())), Wait: time.Sleep}
		})
	})
}

// However a slot comes to another member, that is out for the longest lease, and the holder is
// told. The cluster client finds it, and executes nothing elsewhere.
func TestSlotThatComesToAnother(t *testing.T) {
	for _, scene := range []struct {
		name     string
		replicas bool
		move     func(c *slotted, owner *testserver.Server)
	}{
		{"election", true, func(_ *slotted, owner *testserver.Server) { owner.Kill() }},
		{"resharding", false, func(c *slotted, owner *testserver.Server) { c.Reshard(owner, c.Other(owner), func() {}) }},
		{"empty heir", false, func(c *slotted, owner *testserver.Server) {
			heir := c.Other(owner)
			eventually(c.t, func() error { // or it would be out for its start alone
				if up := heir.Info("server", "uptime_in_seconds"); up < "3" && len(up) == 1 {
					return errors.New("up for " + up)
				}
				return nil
			})
			owner.Kill()
			c.Assign(heir)
		}},
	} {
		t.Run(scene.name, func(t *testing.T) {
			each(t, func(t *testing.T, kind testserver.Kind) {
				c := slottedCluster(t, kind, scene.replicas)
				holder, other := c.locker(), c.locker()
				var held *fenlock.Lock
				eventually(t, func() (err error) { held, err = holder.TryAcquire(t.Context(), "orders"); return err })
				owner, before := c.Owner(), time.Now()
				scene.move(c, owner)
				passesOver(t, held, before, other, holder)
				if c.Owner() == owner {
					t.Error("the slot has not moved: this tests nothing")
				}
			})
		})
	}
}

// A waiter is notified by the member that has the slot, also after that has changed.
func TestWaitersFollowTheSlot(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false)
		holder, waiter := c.locker(), c.locker()
		for range 2 {
			var first *fenlock.Lock
			eventually(t, func() (err error) { first, err = holder.TryAcquire(t.Context(), "orders"); return err })
			got := make(chan *fenlock.Lock, 1)
			go func() {
				l, err := waiter.Acquire(bounded(t), "orders")
				if err != nil {
					t.Errorf("the waiter: %v", err)
				}
				got <- l
			}()
			eventually(t, func() error {
				if n := c.Owner().Do("ZCARD", "fenlock-line:"+clusterPrefix+"orders"); n != "1" {
					return errors.New(n + " waiters in the queue")
				}
				return nil
			})
			first.Release(bounded(t))
			second := <-got
			if second == nil {
				t.FailNow()
			}
			if second.Token() <= first.Token() {
				t.Errorf("token %d after %d", second.Token(), first.Token())
			}
			second.Release(bounded(t))
			c.Reshard(c.Owner(), c.Other(c.Owner()), func() {})
		}
	})
}

// Cluster clients of two clusters, and of servers that are none's members, are refused. The one of
// a client that was closed is told from a member's client that the cluster client has closed.
func TestClusterClientsThatDoNotFit(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		says := func(client *redis.ClusterClient, text string) {
			t.Helper()
			n := open(t, client)
			if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: managedMaxTTL}); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				_, err := n.Do(bounded(t), request(node.Acquire, "a", "a"))
				if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), text) {
					return fmt.Errorf("%v; want it to say %q", err, text)
				}
				return nil
			})
		}
		a := &slotted{t, slotOf(testserver.Cluster(t, kind, 1))}
		b := &slotted{t, slotOf(testserver.Cluster(t, kind, 1))}
		a.allow(clusterPrefix)
		b.allow(clusterPrefix)
		says(clusterClient(t, a.All[0], b.All[0]), "members of two clusters")
		plain := testserver.Start(t, kind)
		says(clusterClient(t, plain), "cluster")
		closed := clusterClient(t, a.All[0])
		closed.Close()
		says(closed, "was closed by the program")
	})
}
