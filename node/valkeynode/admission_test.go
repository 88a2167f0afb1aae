package valkeynode_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/nodetest"
)

// A server that is started again without its data, and with old data.
func TestAdmissionAfterAStart(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
			t.Parallel()
			s := testserver.Start(t, kind)
			return nodetest.Admission{
				Open: func() node.Node { return open(t, s.URL()) }, Wait: time.Sleep,
				Wipe: func() { startedWith(t, s, nil) },
				Copy: func() func() { data := dump(t, s); return func() { startedWith(t, s, data) } },
			}
		})
	})
}

// A server that goes on without its data, and with the data of a replica.
func TestAdmissionOfAServerThatGoesOn(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		nodetest.RunAdmission(t, func(t *testing.T) nodetest.Admission {
			t.Parallel()
			all := testserver.Group(t, kind, 2, "repl-diskless-sync-delay 0")
			s, replica := all[0], all[1]
			return nodetest.Admission{
				Open: func() node.Node { return batched{open(t, s.URL())} }, Wait: time.Sleep,
				Wipe: func() { s.Do("FLUSHALL") },
				Copy: func() func() {
					follow(t, replica, s)
					replica.Do("REPLICAOF", "NO", "ONE")
					return func() {
						follow(t, s, replica)
						s.Do("REPLICAOF", "NO", "ONE")
					}
				},
			}
		})
	})
}

// batched is a node whose requests all carry the replication id that the client knows.
type batched struct{ *valkeynode.Node }

func (n batched) Do(ctx context.Context, r node.Request) (node.Answer, error) {
	c := &call{done: make(chan struct{})}
	n.Exchange(10*time.Second, []node.Request{r}, []node.Call{c})
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		return node.Answer{}, ctx.Err()
	}
}

// dump returns a file with all that a server has.
func dump(t *testing.T, s *testserver.Server) []byte {
	t.Helper()
	if got := s.Do("SAVE"); got != "OK" {
		t.Fatal(got)
	}
	data, err := os.ReadFile(dumpFile(s))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func dumpFile(s *testserver.Server) string {
	dir := strings.TrimSuffix(strings.TrimPrefix(s.Do("CONFIG", "GET", "dir"), "[dir "), "]")
	return filepath.Join(dir, "dump.rdb")
}

// startedWith starts a server again with a file, nil for none.
func startedWith(t *testing.T, s *testserver.Server, data []byte) {
	t.Helper()
	file := dumpFile(s)
	s.Kill()
	s.Wipe()
	if data != nil {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Restart()
}

// failback starts a group of three, and returns how to set its first server back, while it goes on,
// to what its replica knew. Clients of before keep their connections.
func failback(t *testing.T, kind testserver.Kind, maxTTL time.Duration) (servers []*testserver.Server, setBack func()) {
	t.Helper()
	all := testserver.Group(t, kind, 4, "repl-diskless-sync-delay 0")
	servers, replica := all[:3], all[3]
	follow(t, replica, servers[0])
	inStep(t, servers[0], 1)
	for _, s := range servers {
		s.MarkAdmitted("fenlock:", maxTTL)
	}
	return servers, func() {
		eventually(t, func() error {
			if got := replica.Do("HGET", registersKey, "admitted"); got != servers[0].Do("HGET", registersKey, "admitted") {
				return fmt.Errorf("the replica has the mark %s", got)
			}
			return nil
		})
		replica.Do("REPLICAOF", "NO", "ONE")
		follow(t, servers[0], replica)
		servers[0].Do("REPLICAOF", "NO", "ONE")
	}
}

// groupOf opens a node per server, as one client, which does not wait for replicas: leases are
// short here.
func groupOf(t *testing.T, servers []*testserver.Server, maxTTL time.Duration) []*valkeynode.Node {
	t.Helper()
	var nodes []*valkeynode.Node
	var all []node.Node
	for _, s := range servers {
		n := open(t, s.URL()+"?witness=off")
		nodes, all = append(nodes, n), append(all, n)
	}
	for _, n := range nodes {
		if err := n.Join(node.Group{Nodes: all, MaxTTL: maxTTL}); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// Clients that looked at a server before it was set back send requests with the id of then. That id
// is in the mark that came with the old data. None of them makes a lease that is there when the
// server is admitted. Its origin would be that of a register that was not rebuilt.
func TestStrayLeaseIsGoneAfterTheAdmission(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		const maxTTL = time.Second
		const rebuilt = fence.Token(1000)
		servers, setBack := failback(t, kind, maxTTL)
		stray := request("orders/42", "one")
		stray.TTL = maxTTL
		field := fmt.Sprint(node.Stripe(stray.Name))
		servers[0].Do("HSET", registersKey, field, "5")
		var knowing []*valkeynode.Node // each sends one request before it looks again
		for range 40 {
			n := groupOf(t, servers, maxTTL)[0]
			want(t, node.Granted)(startTogether(t, n, node.Acquire, request("warm up", "one")))
			want(t, node.Granted)(startTogether(t, n, node.Release, request("warm up", "one")))
			knowing = append(knowing, n)
		}
		setBack()
		for _, s := range servers[1:] {
			s.Do("HSET", registersKey, field, fmt.Sprint(rebuilt))
		}
		got := servers[0].Do("HGET", registersKey, "admitted")
		if strings.HasPrefix(got, replID(t, servers[0])) || len(got) < 40 {
			t.Fatalf("the mark is %q, which the test is not about", got)
		}
		// The first one comes before any client has noticed.
		if a, err := startTogether(t, knowing[0], node.Extend, stray); err == nil {
			t.Fatalf("%+v; want that the answer does not count", a)
		}
		if got := servers[0].Do("GET", "fenlock:orders/42"); got != string(stray.Holder)+" 5" {
			t.Fatalf("the lease is %q, which the test is not about", got)
		}

		other := groupOf(t, servers, maxTTL)[0]
		admitted := false
		for i := 1; !admitted; i++ {
			a, err := other.Do(bounded(t), as(node.Acquire, request("another name", "two")))
			if err != nil {
				t.Fatal(err)
			}
			admitted = a.Status == node.Granted
			if i < len(knowing) && !admitted {
				a, err := startTogether(t, knowing[i], node.Extend, stray)
				if err != nil {
					t.Errorf("client %d, which knows the id of before, has made a lease: %v", i, err)
				} else if a.Status == node.Granted && a.Register < rebuilt {
					t.Errorf("client %d: the origin %d", i, a.Register)
				}
			}
			time.Sleep(maxTTL / 32)
		}
		if a, err := startTogether(t, other, node.Extend, stray); err != nil || a.Status != node.Granted ||
			a.Register < rebuilt {
			t.Errorf("an extension after the admission: %+v, %v; want the origin %d or larger", a, err, rebuilt)
		}
	})
}

// The longest lease was removed by hand: the next client records its own.
func TestLongestLeaseThatWasRemoved(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, time.Minute)
		held := granted(t, n, "held")
		server.Do("HDEL", registersKey, "maxttl")
		other := joined(t, server.URL(), time.Minute)
		want(t, node.Granted)(other.Do(bounded(t), as(node.Acquire, request("a", "one"))))
		want(t, node.Granted)(n.Do(bounded(t), as(node.Extend, held)))
		if got := server.Do("HGET", registersKey, "maxttl"); got != "60000" {
			t.Errorf("the longest lease is %s", got)
		}
	})
}
