package valkeynode_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// together is a node whose requests always travel in a batch, so that it is the
// client that looks at the server, not the scripts.
type together struct{ *valkeynode.Node }

var _ node.Ordered = together{}

func (n together) Start(r node.Request, timeout time.Duration, call node.Call) {
	sendTogether(n.Node, timeout, starting{r, call})
}

func startTogether(t testing.TB, n *valkeynode.Node, op node.Op, r node.Request) (node.Answer, error) {
	t.Helper()
	c := &call{done: make(chan struct{})}
	sendTogether(n, 10*time.Second, starting{as(op, r), c})
	return c.wait(t)
}

// clientOf returns the id of the server's only connection of a node.
func clientOf(t testing.TB, s *testserver.Server) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^id=(\d+) .* name=fenlock `).FindAllStringSubmatch(s.Do("CLIENT", "LIST"), -1)
	if len(match) != 1 {
		t.Fatalf("%d connections of the node", len(match))
	}
	return match[0][1]
}

// On one and the same connection, a primary follows its promoted replica and is promoted back. Its
// mark is the old one, its scripts are loaded, and it has forgotten what it granted in between. It
// is out for a client that asks alone. Nothing that a batch is answered there counts, and from then
// on the server is out.
func TestFailback(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for op, name := range map[node.Op]string{
			0: "alone", node.Acquire: "acquire", node.Confirm: "confirm", node.Extend: "extend",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				servers := testserver.Group(t, kind, 2, "repl-diskless-sync-delay 0")
				primary, replica := servers[0], servers[1]
				follow(t, replica, primary)
				primary.MarkAdmitted("fenlock:", time.Minute)
				n := joined(t, primary.URL(), time.Minute)
				held := long("held", "one")
				want(t, node.Granted)(startTogether(t, n, node.Acquire, held))
				connection := clientOf(t, primary)
				eventually(t, func() error {
					if replica.Do("EXISTS", "fenlock:held") != "1" {
						return errors.New("the replica does not have it yet")
					}
					return nil
				})
				replica.Do("REPLICAOF", "NO", "ONE")
				follow(t, primary, replica)
				primary.Do("REPLICAOF", "NO", "ONE")
				if mark := primary.Do("HGET", registersKey, "admitted"); mark == replID(t, primary) || mark == "(nil)" {
					t.Fatalf("the mark is %q, which the test is not about", mark)
				}
				if op == 0 {
					out(t, n, node.Replaced)
					return
				}
				r := held
				if op == node.Acquire {
					r = long("orders/42", "two")
				}
				a, err := startTogether(t, n, op, r)
				if err == nil || !strings.Contains(err.Error(), "replication history") {
					t.Fatalf("%+v, %v; want an error that says why the answer does not count", a, err)
				}
				if got := clientOf(t, primary); got != connection {
					t.Errorf("the connection was %s and is %s, so the test is about something else", connection, got)
				}
				want(t, node.Granted)(startTogether(t, n, node.Release, r))
				a, err = startTogether(t, n, op, r)
				if err != nil || a.Status != node.Rejoining || a.Absence.Cause != node.Replaced {
					t.Errorf("afterwards: %+v, %v; want it out", a, err)
				}
			})
		}
	})
}

// A server that is to follow another one, which it has not reached yet, has its own id
// and mark still. Should it accept writes, it is going to forget them.
func TestWritableReplicaUnderABatch(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute, "replica-read-only no")
		server.Do("REPLICAOF", "127.0.0.1", "1")
		if mark := server.Do("HGET", registersKey, "admitted"); mark != replID(t, server) {
			t.Fatalf("the mark is %q, which the test is not about", mark)
		}
		if a, err := startTogether(t, n, node.Acquire, request("orders/42", "one")); err == nil ||
			!strings.Contains(err.Error(), "replica") {
			t.Errorf("%+v, %v; want an error: it is a replica", a, err)
		}
	})
}

// readmitted returns a server that has another id and mark than the node knows.
func readmitted(t *testing.T, kind testserver.Kind) (*testserver.Server, *valkeynode.Node) {
	t.Helper()
	server, n := admitted(t, kind, time.Minute)
	replica := testserver.Start(t, kind)
	server.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
	follow(t, replica, server) // a first replica changes the id
	server.MarkAdmitted("fenlock:", time.Minute)
	return server, n
}

// A server that was admitted anew, on the same connection, votes again in
// batches.
func TestBatchesAfterANewMark(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := readmitted(t, kind)
		want(t, node.Granted)(startTogether(t, n, node.Acquire, request("one", "me")))
		before := commandsOf(t, server)
		for i := range 10 {
			want(t, node.Granted)(startTogether(t, n, node.Acquire, request(fmt.Sprint("name ", i), "me")))
		}
		after := commandsOf(t, server)
		// One INFO for a batch, and the one that asked for these figures.
		if n := after["info"] - before["info"]; n != 11 {
			t.Errorf("%d INFO for 10 batches", n-1)
		}
	})
}
