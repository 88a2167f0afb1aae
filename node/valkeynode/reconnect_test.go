package valkeynode_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// The address of node 2 moves to the server of node 1. That server must not vote
// twice, not even in the first request over the new connection.
func TestAddressMovesToAnotherNodesServer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 2)
		for _, s := range servers {
			s.MarkAdmitted("fenlock:", time.Minute)
		}
		moving := proxy.New(servers[1].Addr(), nil)
		t.Cleanup(moving.Close)
		locker, err := fenlock.New(fenlock.Config{
			// The third is down, so that the lock needs both others.
			Nodes: []node.Node{open(t, servers[0].URL()), open(t, "valkey://"+moving.Addr(0)), open(t, "valkey://127.0.0.1:1")},
			TTL:   time.Minute, MaxTTL: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		var lock *fenlock.Lock
		eventually(t, func() (err error) { lock, err = locker.TryAcquire(bounded(t), "orders/42"); return err })
		moving.Retarget(servers[0].Addr())
		for i := range 20 {
			if err := lock.Extend(bounded(t)); err == nil {
				t.Fatalf("extension %d was carried by one server of three", i)
			} else if strings.Contains(err.Error(), "the same server") {
				return // the reason is told once the connection is made again
			}
		}
		t.Error("20 extensions, and none said that two nodes are one server")
	})
}

// A node's server is made a replica that accepts writes, of a node that has the
// same replication id as its own mark. It forgot what it had granted.
func TestWritableReplicaOfAnotherNode(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3, "replica-read-only no", "repl-diskless-sync-delay 0")
		follow(t, servers[2], servers[0]) // so that the replication id stays when the next one follows
		for _, s := range servers[:2] {
			s.MarkAdmitted("fenlock:", groupTTL)
		}
		nodes, _ := openGroup(t, servers[:2])
		for _, n := range nodes {
			granted(t, n, "warm up")
		}
		follow(t, servers[1], servers[0])
		if a, err := nodes[1].Do(bounded(t), as(node.Acquire, request("orders/42", "one"))); err == nil &&
			a.Status == node.Granted {
			t.Errorf("a replica voted: %+v", a)
		}
	})
}

// A flush is noticed although another version of fenlock loaded the scripts.
func TestFlushAfterAnotherVersion(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		grownUp(t, server)
		server.Do("SCRIPT", "LOAD", "-- another version's\nreturn 1")
		server.MarkAdmitted("fenlock:", groupTTL)
		server.Do("FLUSHALL")
		nodes, _ := openGroup(t, []*testserver.Server{server})
		out(t, nodes[0], node.Unused)
	})
}

// What was certainly never sent says so, and nothing else does: no lease of it has to be
// released.
func TestWhatWasNeverSentSaysSo(t *testing.T) {
	server := testserver.Start(t, testserver.Kinds(t)[0])
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	nobody, hangs := joined(t, "valkey://"+closed.Addr().String(), groupTTL), joined(t, server.URL(), groupTTL)
	server.MarkAdmitted("fenlock:", groupTTL)
	granted(t, hangs, "first")
	server.Pause()
	defer server.Resume()
	for _, c := range []struct {
		what   string
		n      *valkeynode.Node
		unsent bool
		within time.Duration
	}{{"nobody listens", nobody, true, time.Minute}, {"the server hangs", hangs, false, 300 * time.Millisecond}} {
		r := long("a", "me")
		ctx, cancel := context.WithTimeout(t.Context(), c.within)
		_, err := c.n.Do(ctx, as(node.Acquire, r))
		cancel()
		if err == nil || errors.Is(err, node.ErrNotSent) != c.unsent {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.unsent { // what hangs is answered when the server goes on
			_, started := start(c.n, node.Acquire, r, c.within).wait(t)
			for _, err := range []error{err, started} {
				if !errors.Is(err, node.ErrNotSent) || strings.Contains(err.Error(), "not sent") ||
					!strings.Contains(err.Error(), "refused") || errors.Is(err, node.ErrMisconfigured) {
					t.Errorf("%s: %v", c.what, err)
				}
			}
		}
	}
}
