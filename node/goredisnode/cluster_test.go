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
	t   *testing.T
	all []*testserver.Server
}

func slottedCluster(t *testing.T, kind testserver.Kind, replicas bool) *slotted {
	t.Helper()
	config := []string{"cluster-require-full-coverage no", "cluster-allow-replica-migration no"}
	c := &slotted{t: t, all: testserver.Cluster(t, kind, 3, config...)}
	if replicas {
		c.all = append(c.all, testserver.AddReplicas(t, c.all, config...)...)
	}
	c.allow(clusterPrefix)
	c.owner().MarkAdmitted(clusterPrefix, managedMaxTTL)
	return c
}

// allow gives the least permissions that a cluster client needs.
func (c *slotted) allow(prefix string) {
	c.t.Helper()
	rules, err := respnode.Permissions(prefix)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, s := range c.all {
		user := []string{"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all", "+cluster|slots"}
		s.Do(append(user, rules...)...)
	}
}

func (c *slotted) owner() (s *testserver.Server) {
	c.t.Helper()
	eventually(c.t, func() error {
		if s = testserver.Owner(clusterRegisters, c.all...); s == nil {
			return errors.New("no server has the slot")
		}
		return nil
	})
	return s
}

// replica returns the replica of a primary, other one of the other primaries.
func (c *slotted) replica(of *testserver.Server) *testserver.Server {
	for i, s := range c.all {
		if s == of {
			return c.all[(i+3)%6]
		}
	}
	panic("no server of the cluster")
}

func (c *slotted) other(than *testserver.Server) *testserver.Server {
	for _, s := range c.all[:3] {
		if s != than {
			return s
		}
	}
	panic("no other")
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
	n := open(c.t, clusterClient(c.t, c.all...))
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
			c.owner().MarkAdmitted("{fenlock}"+prefix, time.Hour)
			open := func(servers ...*testserver.Server) node.Node {
				n := open(t, clusterClient(t, servers...), goredisnode.WithPrefix(prefix))
				if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour}); err != nil {
					t.Fatal(err)
				}
				return n
			}
			return nodetest.Harness{Node: open(c.all...), Other: open(c.other(c.owner())), Wait: time.Sleep}
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
		{"planned failover", true, func(c *slotted, owner *testserver.Server) { c.replica(owner).Do("CLUSTER", "FAILOVER") }},
		{"stop, take over, continue", true, func(c *slotted, owner *testserver.Server) {
			owner.Pause()
			c.replica(owner).Do("CLUSTER", "FAILOVER", "TAKEOVER")
			eventually(c.t, func() error {
				if role := c.replica(owner).Info("replication", "role"); role != "master" {
					return errors.New("the replica is a " + role)
				}
				return nil
			})
			owner.Resume()
		}},
		{"resharding", false, func(c *slotted, owner *testserver.Server) { c.reshard(owner, c.other(owner)) }},
		{"empty heir", false, func(c *slotted, owner *testserver.Server) {
			heir := c.other(owner)
			eventually(c.t, func() error { // or it would be out for its start alone
				if up := heir.Info("server", "uptime_in_seconds"); up < "3" && len(up) == 1 {
					return errors.New("up for " + up)
				}
				return nil
			})
			owner.Kill()
			c.assign(heir)
		}},
	} {
		t.Run(scene.name, func(t *testing.T) {
			each(t, func(t *testing.T, kind testserver.Kind) {
				c := slottedCluster(t, kind, scene.replicas)
				holder, other := c.locker(), c.locker()
				var held *fenlock.Lock
				eventually(t, func() (err error) { held, err = holder.TryAcquire(t.Context(), "orders"); return err })
				owner, before := c.owner(), time.Now()
				scene.move(c, owner)
				passesOver(t, held, before, other, holder)
				if c.owner() == owner {
					t.Error("the slot has not moved: this tests nothing")
				}
			})
		})
	}
}

// reshard moves the slot with its keys to another primary.
func (c *slotted) reshard(from, to *testserver.Server) {
	c.t.Helper()
	slot := from.Do("CLUSTER", "KEYSLOT", clusterPrefix)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	host, port, _ := strings.Cut(to.Addr(), ":")
	for {
		keys := strings.Fields(strings.Trim(from.Do("CLUSTER", "GETKEYSINSLOT", slot, "100"), "[]"))
		if len(keys) == 0 {
			break
		}
		move := []string{"MIGRATE", host, port, "", "0", "5000", "AUTH2", testserver.Operator, "any", "KEYS"}
		from.Do(append(move, keys...)...)
	}
	for _, s := range []*testserver.Server{to, from} {
		if said := s.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID")); said != "OK" {
			c.t.Fatal(said)
		}
	}
}

// assign gives the slot to a primary by hand, whatever keys there are.
func (c *slotted) assign(to *testserver.Server) {
	c.t.Helper()
	slot := to.Do("CLUSTER", "KEYSLOT", clusterPrefix)
	eventually(c.t, func() error {
		to.Do("CLUSTER", "DELSLOTS", slot)
		to.Do("CLUSTER", "ADDSLOTS", slot)
		to.Do("CLUSTER", "BUMPEPOCH")
		if said := to.Do("EXISTS", clusterRegisters); said != "0" && said != "1" {
			return errors.New(said)
		}
		return nil
	})
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
				if n := c.owner().Do("ZCARD", "fenlock-line:"+clusterPrefix+"orders"); n != "1" {
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
			c.reshard(c.owner(), c.other(c.owner()))
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
		a := &slotted{t: t, all: testserver.Cluster(t, kind, 1)}
		b := &slotted{t: t, all: testserver.Cluster(t, kind, 1)}
		a.allow(clusterPrefix)
		b.allow(clusterPrefix)
		says(clusterClient(t, a.all[0], b.all[0]), "members of two clusters")
		plain := testserver.Start(t, kind)
		says(clusterClient(t, plain), "cluster")
		closed := clusterClient(t, a.all[0])
		closed.Close()
		says(closed, "was closed by the program")
	})
}
