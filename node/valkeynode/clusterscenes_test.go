package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// clusterScenes are how a slot comes to another member. Each ends when that has begun.
var clusterScenes = []struct {
	name     string
	replicas bool
	move     func(c *slotted, owner *testserver.Server)
}{
	{"election", true, func(c *slotted, owner *testserver.Server) { owner.Kill() }},
	{"takeover", true, func(c *slotted, owner *testserver.Server) {
		c.Replica(owner).Do("CLUSTER", "FAILOVER", "TAKEOVER")
	}},
	{"planned-failover", true, func(c *slotted, owner *testserver.Server) { c.Replica(owner).Do("CLUSTER", "FAILOVER") }},
	{"stop-takeover-continue", true, func(c *slotted, owner *testserver.Server) {
		owner.Pause()
		c.Replica(owner).Do("CLUSTER", "FAILOVER", "TAKEOVER")
		eventually(c.t, func() error {
			if role := infoField(c.t, c.Replica(owner), "role"); role != "master" {
				return fmt.Errorf("the replica is a %s", role)
			}
			return nil
		})
		owner.Resume()
	}},
	{"resharding", false, func(c *slotted, owner *testserver.Server) { c.Reshard(owner, c.Other(owner), func() {}) }},
	{"empty-heir", false, func(c *slotted, owner *testserver.Server) {
		grownUp(c.t, c.Other(owner)) // or it would be out for its start alone
		owner.Kill()
		c.Assign(c.Other(owner))
	}},
	{"flush-and-move", false, func(c *slotted, owner *testserver.Server) {
		owner.Do("FLUSHALL")
		c.Reshard(owner, c.Other(owner), func() {})
	}},
}

// However a slot comes to another member, that is out for the longest lease, and the holder is
// told. The clients find it without any help.
func TestSlotThatComesToAnother(t *testing.T) {
	for _, scene := range clusterScenes {
		t.Run(scene.name, func(t *testing.T) {
			each(t, func(t *testing.T, kind testserver.Kind) {
				c := slottedCluster(t, kind, scene.replicas, managedMaxTTL, "cluster-require-full-coverage no")
				holder, other := c.client(), c.client()
				held := takes(t, holder, "orders/42")
				owner := c.Owner()

				before := time.Now()
				scene.move(c, owner)
				var lock *fenlock.Lock
				eventually(t, func() (err error) {
					lock, err = other.TryAcquire(t.Context(), "orders/42")
					if err != nil && !errors.Is(err, fenlock.ErrNoQuorum) && !errors.Is(err, fenlock.ErrHeld) {
						t.Fatalf("while the node is out: %v; want ErrNoQuorum, or that it is held", err)
					}
					return err
				})
				comesAfter(t, lock, held, before)
				if at := c.Owner(); at == owner {
					t.Errorf("the slot has not moved: this tests nothing")
				}
				again := takes(t, holder, "orders/42")
				if again.Token() <= lock.Token() {
					t.Errorf("token %d after %d", again.Token(), lock.Token())
				}
				givesBack(t, again)
			})
		})
	}
}

// A waiter is notified by the member that has the slot, also after that has changed, and whichever
// member it named.
func TestWaitersFollowTheSlot(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, managedMaxTTL)
		holder := c.client()
		waiter := client(t, managedMaxTTL, func(c *fenlock.Config) { c.TTL = managedTTL }, clusterURL(c.Other(c.Owner())))
		for range 2 {
			first := takes(t, holder, "orders/42")
			got := make(chan *fenlock.Lock, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
				defer cancel()
				l, err := waiter.Acquire(ctx, "orders/42")
				if err != nil {
					t.Errorf("the waiter: %v", err)
				}
				got <- l
			}()
			eventually(t, func() error {
				if n := c.Owner().Do("ZCARD", "fenlock-line:"+clusterPrefix+"orders/42"); n != "1" {
					return fmt.Errorf("%s waiters in the queue", n)
				}
				return nil
			})
			givesBack(t, first)
			second := <-got
			if second == nil {
				t.FailNow()
			}
			if second.Token() <= first.Token() {
				t.Errorf("token %d after %d", second.Token(), first.Token())
			}
			givesBack(t, second)
			c.Reshard(c.Owner(), c.Other(c.Owner()), func() {})
		}
	})
}

// A slot that is not served is no lock that is held. Each error says what it is, and that nothing
// was sent. The client goes on when the slot is served.
func TestSlotThatIsNotServed(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, false, groupTTL, "cluster-require-full-coverage no")
		n := joined(t, c.url(), groupTTL)
		r := request("orders", "one")
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, r)))
		owner, slot := c.Owner(), c.Number()
		says := func(text string, again func()) {
			t.Helper()
			eventually(t, func() error {
				again()
				_, err := n.Do(bounded(t), as(node.Acquire, request("another", "two")))
				if err == nil || !strings.Contains(err.Error(), text) {
					return fmt.Errorf("got %v; want an error that says %q", err, text)
				}
				if !errors.Is(err, node.ErrNotSent) || errors.Is(err, node.ErrMisconfigured) {
					t.Errorf("%v: not marked as not sent, or not to be mended by waiting", err)
				}
				return nil
			})
		}
		says("no member has it", func() {
			for _, s := range c.All { // until no member has heard of the owner since
				s.Do("CLUSTER", "DELSLOTS", slot)
			}
		})
		owner.Do("CLUSTER", "ADDSLOTS", slot)
		owner.Do("CLUSTER", "BUMPEPOCH")
		acquire(t, n, request("another", "two"))

		to := c.Other(owner)
		to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", owner.Do("CLUSTER", "MYID"))
		owner.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
		says("is being moved", func() {}) // TRYAGAIN: the name is free
		host, port, _ := strings.Cut(to.Addr(), ":")
		owner.Do("MIGRATE", host, port, clusterRegisters, "0", "5000", "AUTH2", testserver.Operator, "any")
		says("is being moved", func() {}) // ASK
	})
}

// URLs that do not fit, and what says so.
func TestClusterURLsThatDoNotFit(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		plain := testserver.Start(t, kind)
		allow(t, plain, clusterPrefix)
		refused(t, clusterURL(plain), plain.Addr(), "does not run in cluster mode")

		c := slottedCluster(t, kind, false, groupTTL)
		refused(t, c.All[0].URL(), c.All[0].Addr(), "valkey-cluster://")

		for _, s := range c.All {
			s.Do("ACL", "SETUSER", "default", "~*")
		}
		// Two nodes in one cluster, whichever members and tags they are by.
		for _, tags := range [][2]string{{"a", "b"}, {"c", "c"}} {
			one, two := open(t, clusterURL(c.All[0])+"/"+tags[0]), open(t, clusterURL(c.All[1])+"/"+tags[1])
			join(t, one, two)
			eventually(t, func() error {
				one.Do(bounded(t), as(node.Acquire, request("a", "one")))
				_, err := two.Do(bounded(t), as(node.Acquire, request("a", "one")))
				if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "same cluster") {
					return fmt.Errorf("two nodes in one cluster: %v", err)
				}
				return nil
			})
		}

		// Clients of a group that name the cluster by different tags are told by its other nodes.
		plain.Do("ACL", "SETUSER", "default", "~*")
		first, second := open(t, plain.URL()), open(t, plain.URL())
		join(t, first, open(t, c.url()+"/d"))
		acquire(t, first, request("a", "one"))
		join(t, second, open(t, c.url()+"/e"))
		_, err := second.Do(bounded(t), as(node.Acquire, request("a", "one")))
		if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "/d") ||
			!strings.Contains(err.Error(), "/e") {
			t.Errorf("clients with different tags: %v", err)
		}
	})
}

// join makes a group of nodes.
func join(t *testing.T, nodes ...*valkeynode.Node) {
	t.Helper()
	var all []node.Node
	for _, n := range nodes {
		all = append(all, n)
	}
	for _, n := range nodes {
		if err := n.Join(node.Group{Nodes: all, MaxTTL: groupTTL}); err != nil {
			t.Fatal(err)
		}
	}
}

// A replica may be named, and members that are down. The cluster tells of the others.
func TestSeedsOfACluster(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, true, managedMaxTTL)
		owner := c.Owner()
		gone := c.Other(owner)
		gone.Kill()
		for _, seed := range []*testserver.Server{c.Replica(owner), c.Replica(c.Other(owner))} {
			l := client(t, managedMaxTTL, func(c *fenlock.Config) { c.TTL = managedTTL }, clusterURL(gone, seed))
			givesBack(t, takes(t, l, "orders/42"))
		}
		// The only member that was named is the owner, and it is gone.
		l := client(t, managedMaxTTL, func(c *fenlock.Config) { c.TTL = managedTTL }, clusterURL(owner))
		givesBack(t, takes(t, l, "orders/42"))
		gone.Restart()
		allow(t, gone, clusterPrefix)
		owner.Kill()
		givesBack(t, takes(t, l, "orders/42"))
	})
}

// What operators look with sees the member that has the slot, whichever was named.
func TestClusterAsOperatorsSeeIt(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		c := slottedCluster(t, kind, true, time.Minute)
		n := joined(t, clusterURL(c.Other(c.Owner())), time.Minute)
		r := long("orders/42", "me")
		token := want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, r))).Register

		looks := open(t, clusterURL(c.Replica(c.Owner())))
		if l, err := looks.Inspect(bounded(t), "orders/42"); err != nil || !l.Leased || l.Out || l.Origin != token {
			t.Errorf("inspect: %+v, %v", l, err)
		}
		var listed []string
		err := looks.List(bounded(t), "", func(l node.Lease) bool { listed = append(listed, l.Name); return true })
		if err != nil || len(listed) != 1 || listed[0] != "orders/42" {
			t.Errorf("list: %q, %v", listed, err)
		}
		look := node.Look{MaxTTL: time.Minute, Thorough: true}
		e, err := open(t, clusterURL(c.Replica(c.Owner()))).Examine(bounded(t), look)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range e.Findings {
			if f.Severity == node.Error {
				t.Errorf("%+v", f)
			}
		}
		want(t, node.Granted)(n.Do(bounded(t), as(node.ForceRelease, r)))
	})
}

// Members with TLS are verified by the host that the cluster names, or by the name in the URL.
func TestClusterWithTLS(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.StartTLS(t, kind, "cluster-enabled yes")
		s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		allow(t, s, clusterPrefix)
		eventually(t, func() error {
			if said := s.Do("EXISTS", clusterRegisters); said != "0" {
				return errors.New(said)
			}
			return nil
		})
		s.MarkAdmitted(clusterPrefix, groupTTL)
		for _, more := range []string{"", "&servername=localhost"} {
			n := joined(t, "valkeys-cluster://"+s.Addr()+"?ca="+s.CAFile+more, groupTTL)
			want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, request("orders", "one"))))
			want(t, node.Granted)(n.Do(bounded(t), as(node.Release, request("orders", "one"))))
		}
		n := joined(t, "valkeys-cluster://"+s.Addr()+"?servername=another.host&ca="+s.CAFile, groupTTL)
		if _, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one"))); !errors.Is(err, fenlock.ErrMisconfigured) {
			t.Errorf("with another name: %v", err)
		}
	})
}
