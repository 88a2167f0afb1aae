package valkeynode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// group starts n servers that are admitted, and opens them as one group.
func group(t *testing.T, kind testserver.Kind, n int, config ...string) ([]*testserver.Server, []*valkeynode.Node,
	*warnings) {
	t.Helper()
	servers := testserver.Group(t, kind, n, config...)
	for _, s := range servers {
		s.MarkAdmitted("fenlock:", groupTTL)
	}
	nodes, w := openGroup(t, servers)
	for _, member := range nodes {
		granted(t, member, "warm up")
	}
	return servers, nodes, w
}

// promise lets nodes grant a name with the register token, and keeps the lease.
func promise(t *testing.T, name string, token fence.Token, nodes ...*valkeynode.Node) node.Request {
	t.Helper()
	r := request(name, "before")
	r.Token = token
	for _, n := range nodes {
		if a, err := n.Do(bounded(t), as(node.Acquire, r)); err != nil || a.Status != node.Granted || a.Register != token {
			t.Fatalf("%s: %+v, %v; want %d granted", n, a, err, token)
		}
	}
	return r
}

// out checks that the node does not vote, and says why.
func out(t *testing.T, n *valkeynode.Node, why node.Cause) {
	t.Helper()
	var a node.Answer
	eventually(t, func() (err error) { // the connection may have to be made again
		a, err = n.Do(bounded(t), as(node.Acquire, request("another name", "two")))
		return err
	})
	if a.Status != node.Rejoining || a.Absence.Cause != why || a.Absence.Wait <= 0 {
		t.Fatalf("%s: %+v; want it out because %v", n, a, why)
	}
}

// grownUp waits until a server is up for longer than the longest lease, so that its start
// proves nothing any more.
func grownUp(t *testing.T, server *testserver.Server) {
	t.Helper()
	eventually(t, func() error {
		if up := infoField(t, server, "uptime_in_seconds"); len(up) < 2 && up < "3" {
			return fmt.Errorf("up for %s s", up)
		}
		return nil
	})
}

// With fsync on every write nothing is lost, and no client has to wait.
func TestRestartOfADurableServer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind, "appendonly yes", "appendfsync always", "aof-load-truncated no")
		// A long lease, which is there still however slow the machine is.
		n := joined(t, server.URL(), time.Hour)
		server.MarkAdmitted("fenlock:", time.Hour)
		server.Do("HSET", registersKey, "durable", "1")
		r := request("orders/42", "one")
		r.TTL, r.Token = time.Hour, 1000
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, r)))
		for range 2 {
			server.Kill()
			server.Restart()
			// acquire would wait for a quarantine; an hour is too long for that.
			if a := acquire(t, n, request("orders/42", "two")); a.Status != node.Held || a.HeldBy != "one" {
				t.Fatalf("after the restart: %+v; want it held by one", a)
			}
			want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, request("other", "two"))))
			n.Do(bounded(t), as(node.Release, request("other", "two")))
		}
		if a, err := n.Do(bounded(t), as(node.Extend, r)); err != nil || a.Status != node.Granted || a.Register != 1000 {
			t.Errorf("extend: %+v, %v", a, err)
		}
	})
}

// A file that may lack the last writes is no memory, although the old mark is
// in it.
func TestRestartOfAServerThatMayHaveLostWrites(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, c := range []struct {
			name    string
			durable string // as recorded when admitted
			config  []string
		}{
			{"fsync every second", "0", []string{"appendonly yes", "appendfsync everysec"}},
			{"fsync always since then", "0", []string{"appendonly yes", "appendfsync always", "aof-load-truncated no"}},
			{"not while rewriting", "1", []string{"appendonly yes", "appendfsync always", "aof-load-truncated no",
				"no-appendfsync-on-rewrite yes"}},
			{"reads a file that is torn off", "1", []string{"appendonly yes", "appendfsync always"}},
			{"something is denied", "1", []string{"appendonly yes", "appendfsync always", "aof-load-truncated no"}},
			{"snapshots", "0", []string{"save 3600 1"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				server := testserver.Start(t, kind, c.config...)
				server.MarkAdmitted("fenlock:", groupTTL)
				n := joined(t, server.URL(), groupTTL)
				promise(t, "orders/42", 1000, n)
				server.Do("HSET", registersKey, "durable", c.durable)
				server.Stop()
				server.Restart()
				if c.name == "something is denied" { // as to a default user without permissions
					server.Do("ACL", "SETUSER", "nobody", "on", ">secret", "-@all")
					if said, err := server.Ask("nobody", "secret", 10*time.Second, "GET", "a"); err == nil &&
						!strings.Contains(said, "NOPERM") {
						t.Fatal(said)
					}
				}
				if got := server.Do("HGET", registersKey, "admitted"); len(got) != 40 {
					t.Fatalf("the old mark is not in the file: %q", got)
				}
				out(t, n, node.Restarted)
				if a := acquire(t, n, request("orders/42", "two")); a.Register != 1001 {
					t.Errorf("after it was admitted: %+v; want 1001: the register is in the file", a)
				}
			})
		}
	})
}

// What an operator can do to a server that stays up.
func TestFlush(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, c := range []struct {
			name     string
			commands string
			out      bool
		}{
			{"scripts", "SCRIPT FLUSH", false},
			{"statistics", "CONFIG RESETSTAT", false},
			{"scripts and statistics", "SCRIPT FLUSH; CONFIG RESETSTAT", false},
			{"data", "FLUSHALL", true},
			{"database", "FLUSHDB", true},
			{"registers", "DEL fenlock-registers:fenlock:", true},
			{"data and scripts", "FLUSHALL; SCRIPT FLUSH", true},
			{"everything", "FLUSHALL; SCRIPT FLUSH; CONFIG RESETSTAT", true},
			{"everything, the other way round", "CONFIG RESETSTAT; SCRIPT FLUSH; FLUSHALL", true},
			{"statistics last", "SCRIPT FLUSH; FLUSHALL; CONFIG RESETSTAT", true},
			{"from a script", "EVAL return(redis.call('FLUSHALL')) 0; SCRIPT FLUSH", true},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				servers, nodes, _ := group(t, kind, 3)
				promise(t, "orders/42", 1000, nodes...)
				grownUp(t, servers[0])
				for _, command := range strings.Split(c.commands, "; ") {
					servers[0].Do(strings.Fields(command)...)
				}
				if !c.out {
					want(t, node.Granted)(nodes[0].Do(bounded(t), as(node.Acquire, request("other", "two"))))
					return
				}
				out(t, nodes[0], node.Unused)
				if a := acquire(t, nodes[0], request("orders/42", "two")); a.Register != 1001 {
					t.Errorf("after it was admitted: %+v; want 1001", a)
				}
			})
		}
	})
}

// A replica that takes over may lack the newest leases and registers. That is so although it has
// been up for long and has a copy of the mark.
func TestPromotedReplica(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers, nodes, _ := group(t, kind, 3)
		replica := testserver.Start(t, kind)
		follow(t, replica, servers[0])
		// To get a replica changes the server's replication id, so it has to be admitted anew; it
		// could have followed the other server meanwhile.
		out(t, nodes[0], node.Replaced)
		acquire(t, nodes[0], request("warm up again", "one"))
		held := promise(t, "orders/42", 1000, nodes...)
		servers[0].Kill()
		replica.Do("REPLICAOF", "NO", "ONE")

		others := append([]*testserver.Server{replica}, servers[1:]...)
		for _, s := range others {
			s.Do("HSET", registersKey, "members", "*") // it has another address
		}
		promoted, _ := openGroup(t, others)
		out(t, promoted[0], node.Replaced)
		if a := acquire(t, promoted[0], request(held.Name, "two")); a.Status != node.Granted || a.Register != 1001 {
			t.Errorf("after it was admitted: %+v; want 1001 granted", a)
		}
	})
}

// A client that asks a server that does not vote is told, so that "no lease" is not taken for "the
// lock is free".
func TestInspectedServerIsOut(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		out := func(n *valkeynode.Node) bool {
			t.Helper()
			lease, err := n.Inspect(t.Context(), "orders/42")
			if err != nil {
				t.Fatal(err)
			}
			return lease.Out
		}
		s, n := admitted(t, kind, time.Minute)
		if out(n) {
			t.Error("a server that votes is out")
		}
		s.Do("FLUSHALL")
		if !out(n) {
			t.Error("one that was flushed is not out")
		}
		s.MarkAdmitted(valkeynode.DefaultPrefix, time.Minute)
		s.Kill()
		s.Restart()
		if looks := open(t, s.URL()); !out(looks) {
			t.Error("one that is new is not out")
		}
	})
}

// All memory is lost at once: the locks work again after the longest lease, and
// an operator is told that tokens rest on clocks. Should one server never come back, the
// others come back one after the other, and must not wait for it.
func TestAllMemoryIsLost(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, c := range []struct{ n, gone int }{{3, 0}, {3, 1}, {5, 1}} {
			servers, nodes, w := group(t, kind, c.n)
			for _, s := range servers {
				s.Kill()
			}
			for _, s := range servers[c.gone:] {
				s.Restart()
			}
			for _, member := range nodes[c.gone:] {
				acquire(t, member, request("orders/42", "two"))
			}
			if lines := strings.Join(w.all(), "\n"); !strings.Contains(lines, "memory at once") {
				t.Errorf("%d of %d are gone: warned of %q", c.gone, c.n, lines)
			}
		}
	})
}

// The longest lease is the group's, not a client's. A client that wants a longer lease is refused.
// A client that knows of a shorter one keeps servers out for as long as the longest.
func TestLongestLeaseIsTheGroups(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server, n := admitted(t, kind, groupTTL)
		r := request("a", "one")
		r.TTL = groupTTL + time.Millisecond
		if _, err := n.Do(bounded(t), as(node.Acquire, r)); !errors.Is(err, fenlock.ErrMisconfigured) ||
			!strings.Contains(err.Error(), "500 ms") {
			t.Errorf("acquire with a longer lease: %v", err)
		}
		r.Token = 1
		if _, err := n.Do(bounded(t), as(node.Extend, r)); !errors.Is(err, fenlock.ErrMisconfigured) {
			t.Errorf("extend with a longer lease: %v", err)
		}
		server.Do("HSET", registersKey, "maxttl", "3600000", "admitted", "an earlier one")
		server.Do("SCRIPT", "FLUSH")
		_, err := n.Do(bounded(t), as(node.Acquire, request("b", "one")))
		if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "1h0m0s") {
			t.Errorf("admitted with another longest lease: %v", err)
		}
	})
}

// A client may not have heard that its server is another one now. It sends requests with the old
// replication id, and the old mark is there. The server is a promoted replica, or a primary that
// has gained its first replica. Once the loss is noted nothing of that is carried out. Such a lease
// would be there after the admission, with the origin of a register that was not rebuilt.
func TestStrayLeaseIsNotMade(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 2, "repl-diskless-sync-delay 0")
		primary, replica := servers[0], servers[1]
		primary.MarkAdmitted("fenlock:", time.Minute)
		paused, other := joined(t, primary.URL(), time.Minute), joined(t, primary.URL(), time.Minute)
		granted(t, paused, "warm up")
		stray := func(name string) (made string) {
			r := request(name, "stray")
			if a, err := startTogether(t, paused, node.Extend, r); err == nil && a.Status == node.Granted {
				t.Fatalf("it counts: %+v", a)
			}
			return primary.Do("EXISTS", "fenlock:"+name)
		}
		before := replID(t, primary)
		follow(t, replica, primary)
		if replID(t, primary) == before {
			t.Fatal("the server is what it was: the test is about something else")
		}
		out(t, other, node.Replaced) // and notes it
		if mark := primary.Do("HGET", registersKey, "admitted"); mark == before {
			t.Error("the mark of before is there")
		}
		if made := stray("after"); made != "0" {
			t.Errorf("after the loss was noted, a client that had not heard of it made a lease")
		}
	})
}

// A promoted replica forgets that it was one when its backlog is freed. It has the mark of its
// primary, and that the primary was durable. It is not a server that was started again with all
// that it had.
func TestPromotedReplicaWhoseBacklogIsFreed(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		durable := []string{"appendonly yes", "appendfsync always", "aof-load-truncated no", "repl-backlog-ttl 1",
			"repl-diskless-sync-delay 0"}
		primary, replica := testserver.Start(t, kind, durable...), testserver.Start(t, kind, durable...)
		follow(t, replica, primary)
		primary.MarkAdmitted("fenlock:", time.Minute)
		primary.Do("HSET", registersKey, "durable", "1", "members", "*")
		eventually(t, func() error {
			if replica.Do("HGET", registersKey, "durable") != "1" {
				return errors.New("the replica does not have it yet")
			}
			return nil
		})
		replica.Do("REPLICAOF", "NO", "ONE")
		eventually(t, func() error {
			if infoField(t, replica, "second_repl_offset") != "-1" {
				return errors.New("it knows of its other history")
			}
			return nil
		})
		out(t, joined(t, replica.URL(), time.Minute), node.Replaced)
	})
}

// A durable server was started again, and no client has asked it since. Others that ask for its
// registers do not take it for lost: it has them.
func TestDurableServerIsNotTakenForLost(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind, "appendonly yes", "appendfsync always", "aof-load-truncated no")
		server.MarkAdmitted("fenlock:", time.Hour)
		server.Do("HSET", registersKey, "durable", "1")
		server.Kill()
		server.Restart()
		n := joined(t, server.URL(), time.Hour)
		if r, err := n.Registers(bounded(t)); err == nil {
			t.Errorf("before it is looked at: %+v; want no answer", r)
		}
		want(t, node.Granted)(n.Do(bounded(t), as(node.Acquire, request("a", "one"))))
		if r, err := n.Registers(bounded(t)); err != nil || !r.Admitted {
			t.Errorf("when it votes again: %+v, %v", r, err)
		}
	})
}
