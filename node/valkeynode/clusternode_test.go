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
	t *testing.T
	testserver.Slot
	replicas bool
}

// slottedCluster starts three primaries, with a replica each if there are to be, one of which is
// admitted.
func slottedCluster(t *testing.T, kind testserver.Kind, replicas bool, maxTTL time.Duration,
	config ...string) *slotted {
	t.Helper()
	all := testserver.Cluster(t, kind, 3, config...)
	c := &slotted{t, testserver.Slot{Key: clusterRegisters, All: all}, replicas}
	if replicas {
		c.All = append(c.All, testserver.AddReplicas(t, c.All, config...)...)
	}
	for _, s := range c.All {
		allow(t, s, clusterPrefix)
	}
	c.Owner().MarkAdmitted(clusterPrefix, maxTTL)
	return c
}

func (c *slotted) url() string { return clusterURL(c.All...) }

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

// Each operation refuses a member of a cluster with the reason, whatever the prefix. Nothing is
// written there.
func TestClusterIsRefused(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Cluster(t, kind, 3)
		n := joined(t, servers[0].URL(), groupTTL, valkeynode.WithPrefix("{fenlock}:"))
		for _, op := range []node.Op{node.Acquire, node.Confirm, node.Extend, node.Release, node.ForceRelease} {
			_, err := n.Do(bounded(t), as(op, request("orders", "one")))
			if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "cluster mode") ||
				!strings.Contains(err.Error(), "cluster-enabled no") {
				t.Errorf("%v: %v", op, err)
			}
		}
		for _, s := range servers {
			if keys := s.Do("KEYS", "*"); keys != "[]" {
				t.Errorf("left behind: %s", keys)
			}
		}
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
			for _, s := range c.All {
				allow(t, s, "{fenlock}"+prefix)
			}
			c.Owner().MarkAdmitted("{fenlock}"+prefix, time.Hour)
			opener := func(url string) node.Node {
				return of(joined(t, url, time.Hour, valkeynode.WithPrefix(prefix)))
			}
			return nodetest.Harness{Node: opener(c.url()), Other: opener(clusterURL(c.Other(c.Owner()))), Wait: time.Sleep}
		})
	})
}

// A member of a cluster is never new, whatever the client asserts, and however long it is up.
func TestClusterMemberIsNeverNew(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, groupTTL)
		owner := c.Owner()
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
