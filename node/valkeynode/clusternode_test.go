package valkeynode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/nodetest"
)

// A cluster as one node: what is kept is in one slot, by a hash tag.
const (
	clusterPrefix    = "{fenlock}fenlock:"
	clusterRegisters = "fenlock-registers:" + clusterPrefix
)

// slotted is a cluster whose owner of the slot is known.
type slotted struct {
	t        *testing.T
	all      []*testserver.Server // the primaries, then the replica of each
	replicas bool
}

// slottedCluster starts three primaries, with a replica each if there are to be, one of which is
// admitted.
func slottedCluster(t *testing.T, kind testserver.Kind, replicas bool, maxTTL time.Duration,
	config ...string) *slotted {
	t.Helper()
	c := &slotted{t: t, all: testserver.Cluster(t, kind, 3, config...), replicas: replicas}
	if replicas {
		c.all = append(c.all, testserver.AddReplicas(t, c.all, config...)...)
	}
	for _, s := range c.all {
		allow(t, s, clusterPrefix)
	}
	c.owner().MarkAdmitted(clusterPrefix, maxTTL)
	return c
}

// owner returns the server that has the slot.
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

// replica returns the replica of a primary.
func (c *slotted) replica(of *testserver.Server) *testserver.Server {
	for i, s := range c.all {
		if s == of {
			return c.all[(i+3)%6]
		}
	}
	panic("no server of the cluster")
}

// other returns a primary of the first three that is not this one.
func (c *slotted) other(than *testserver.Server) *testserver.Server {
	for _, s := range c.all[:3] {
		if s != than {
			return s
		}
	}
	panic("no other")
}

func (c *slotted) slot() string { return c.all[0].Do("CLUSTER", "KEYSLOT", clusterPrefix) }

func (c *slotted) url() string { return clusterURL(c.all...) }

func clusterURL(servers ...*testserver.Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Addr())
	}
	return "valkey-cluster://" + strings.Join(hosts, ",")
}

func (c *slotted) client() *fenlock.Locker {
	c.t.Helper()
	return client(c.t, managedMaxTTL, func(c *fenlock.Config) { c.TTL = managedTTL }, c.url())
}

// assign gives the slot to a primary by hand, whatever keys there are.
func (c *slotted) assign(to *testserver.Server) {
	c.t.Helper()
	slot, id := c.slot(), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
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

func TestConformanceOfACluster(t *testing.T) {
	conformanceOfACluster(t, func(n *valkeynode.Node) node.Node { return n })
}

// Batches have their own words for what was not executed, and so for MOVED.
func TestConformanceOfBatchesInACluster(t *testing.T) {
	conformanceOfACluster(t, func(n *valkeynode.Node) node.Node { return together{n} })
}

func conformanceOfACluster(t *testing.T, of func(*valkeynode.Node) node.Node) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, time.Hour)
		opened := 0
		nodetest.Run(t, func(t *testing.T) nodetest.Harness {
			opened++
			prefix := fmt.Sprintf("test-%d:", opened)
			for _, s := range c.all {
				allow(t, s, "{fenlock}"+prefix)
			}
			c.owner().MarkAdmitted("{fenlock}"+prefix, time.Hour)
			opener := func(url string) node.Node {
				return of(joined(t, url, time.Hour, valkeynode.WithPrefix(prefix)))
			}
			return nodetest.Harness{Node: opener(c.url()), Other: opener(clusterURL(c.other(c.owner()))), Wait: time.Sleep}
		})
	})
}

// A member of a cluster is never new, whatever the client asserts, and however long it is up.
func TestClusterMemberIsNeverNew(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, groupTTL)
		owner := c.owner()
		owner.Do("DEL", clusterRegisters)
		grownUp(t, owner)
		n := open(t, c.url())
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: groupTTL, New: true}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			a, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
			if err == nil && a.Status == node.Granted {
				t.Fatal("the first answer is a grant")
			}
			if err == nil && (a.Status != node.Rejoining || a.Absence.Wait <= 0) {
				err = fmt.Errorf("%+v", a)
			}
			return err
		})
		acquire(t, n, request("orders", "one"))
	})
}
