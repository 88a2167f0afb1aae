package valkeynode_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// whole starts a cluster of one primary that has all slots and is admitted.
func whole(t *testing.T, kind testserver.Kind, maxTTL time.Duration) *testserver.Server {
	t.Helper()
	s := testserver.Start(t, kind, "cluster-enabled yes", "cluster-node-timeout 2000")
	s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, func() error {
		if said := s.Do("EXISTS", clusterRegisters); said != "0" {
			return errors.New(said)
		}
		return nil
	})
	allow(t, s, clusterPrefix)
	s.MarkAdmitted(clusterPrefix, maxTTL)
	return s
}

// The number of a database, as other URLs have it, is no hash tag. Neither is what ends one.
func TestTagsThatAreNone(t *testing.T) {
	for tag, says := range map[string]string{"0": "a cluster has one database", "15": "the path is the hash tag",
		"a%7Db": "the hash tag of all keys", "a/b": "the hash tag of all keys"} {
		n, err := valkeynode.Open("valkey-cluster://a:1,b:2/" + tag)
		if !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("/%s: %v; want an error that says %q", tag, err, says)
		}
		if err == nil {
			n.Close()
		}
	}
	n, err := valkeynode.Open("valkey-cluster://a:1,b:2/v0")
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
}

// A URL that names members of two clusters is refused, whichever comes first: two clients would
// begin with one each.
func TestSeedsOfTwoClusters(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		a, b := whole(t, kind, groupTTL), whole(t, kind, groupTTL)
		refused(t, clusterURL(a, b), a.Addr(), "members of two clusters")
		refused(t, clusterURL(b, a), b.Addr(), "members of two clusters")
	})
}

// A cluster without TLS is refused by a URL that asks for it, whichever of the members is asked.
func TestClusterThatSpeaksNoTLS(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		a, b := whole(t, kind, groupTTL), whole(t, kind, groupTTL)
		refused(t, "valkeys-cluster://"+a.Addr()+","+b.Addr(), a.Addr(), "write valkey for valkeys")
	})
}

// A seed that belongs to no cluster yet is none of another one.
func TestSeedWithoutACluster(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		a, b := whole(t, kind, managedMaxTTL), testserver.Start(t, kind, "cluster-enabled yes")
		granted(t, joined(t, clusterURL(a, b), managedMaxTTL), "orders")
	})
}

// A client that is at a cluster does not go on at the seed of another one, which did not answer at
// the first look. It goes on when its own cluster is back.
func TestAnotherClusterThanBefore(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		a, b := whole(t, kind, managedMaxTTL), whole(t, kind, managedMaxTTL)
		b.Pause()
		n := joined(t, clusterURL(a, b), managedMaxTTL)
		granted(t, n, "before")
		b.Resume()
		a.Kill()
		eventually(t, func() error {
			answer, err := n.Do(bounded(t), as(node.Acquire, request("other", "one")))
			if err == nil && answer.Status == node.Granted {
				t.Fatal("granted by another cluster than before")
			}
			if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "another cluster than before") {
				return fmt.Errorf("%+v, %w", answer, err)
			}
			return nil
		})
		a.Restart()
		allow(t, a, clusterPrefix)
		acquire(t, n, request("other", "one"))
	})
}

// Two nodes of a group are one cluster, and are asked at once for the first time. One of them is
// refused before its answer counts.
func TestTwoNodesOfOneClusterAtOnce(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, groupTTL)
		for _, s := range c.All {
			s.Do("ACL", "SETUSER", "default", "~*")
			for _, tag := range []string{"a", "b"} {
				do := func(args ...string) (string, error) { return s.Do(args...), nil }
				testserver.MarkAdmitted(do, "{"+tag+"}fenlock:", groupTTL, false)
			}
		}
		for range 10 {
			one, two := open(t, clusterURL(c.All[0])+"/a"), open(t, clusterURL(c.All[1])+"/b")
			join(t, one, two)
			var all sync.WaitGroup
			var errs [2]error
			for i, n := range []node.Node{one, two} {
				all.Go(func() { _, errs[i] = n.Do(bounded(t), as(node.Acquire, request("orders", "one"))) })
			}
			all.Wait()
			if errs[0] == nil && errs[1] == nil {
				t.Fatal("both answers count")
			}
			err := errors.Join(errs[0], errs[1])
			if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "same cluster") {
				t.Error(err)
			}
		}
	})
}

// A replica that is missing may have moved to another primary of the cluster. The error names the
// setting, and so does an examination before that happens.
func TestReplicaThatTheClusterMoves(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, true, groupTTL)
		owner := c.Owner()
		n := joined(t, c.url(), groupTTL)
		eventually(t, func() error { // the replica is in step, and recorded
			_, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
			owner = c.Owner() // a busy machine may have had an election
			if mark := owner.Do("HGET", clusterRegisters, "admitted"); !strings.HasSuffix(mark, "/1") {
				return fmt.Errorf("the mark is %s, %v", mark, err)
			}
			return nil
		})
		found := func() string {
			e, err := n.Examine(bounded(t), node.Look{MaxTTL: groupTTL})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range e.Findings {
				if f.Check == "replica-migration" {
					return f.Severity.String() + ": " + f.Advice
				}
			}
			return ""
		}
		const setting = "cluster-allow-replica-migration"
		if said := found(); !strings.HasPrefix(said, "warning: CONFIG SET "+setting+" no") {
			t.Errorf("by default: %q", said)
		}
		owner.Do("CONFIG", "SET", setting, "no")
		if said := found(); said != "" {
			t.Errorf("with %s no: %s", setting, said)
		}
		c.Replica(owner).Kill()
		eventually(t, func() error {
			_, err := n.Do(bounded(t), as(node.Acquire, request("another", "two")))
			if err == nil || !strings.Contains(err.Error(), setting) {
				return fmt.Errorf("without the replica: %v", err)
			}
			return nil
		})
	})
}
