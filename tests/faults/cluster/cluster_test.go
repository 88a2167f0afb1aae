//go:build linux

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/probe"
	"github.com/fenlock/fenlock/tests/faults/library"
)

func ask(t *testing.T, m *Member, args ...string) string {
	t.Helper()
	reply, err := m.Ask(Patience, args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestCluster(t *testing.T) {
	for _, kind := range testserver.Kinds(t) {
		c := New(t, OfKind(kind), 2, Always, 1)
		version, err := c.Version()
		if err != nil || !strings.HasPrefix(strings.ToLower(version), string(kind)+" ") {
			t.Errorf("version %q, %v", version, err)
		}
		for node, m := range c.Members {
			if err := m.Normal(); err != nil {
				t.Error(err)
			}
			probe.Dial(t, m.Proxy.Addr(0)).Answers("PING", "+PONG")
			if !c.Admitted(node) {
				t.Errorf("node %d is not admitted", node)
			}
		}
		first, second := c.URLs(0), c.URLs(1)
		if first[0] != "valkey://"+c.Members[0].Proxy.Addr(0)+"?name=0" || first[0] == second[0] || first[0] == first[1] {
			t.Errorf("addresses: %v, %v", first, second)
		}
		if left, err := c.Leftovers(); err != nil || len(left) != 0 {
			t.Errorf("leftovers %v, %v", left, err)
		}
		ask(t, c.Members[1], "SET", "fenlock:orders/42", "0123:client 7", "PX", "60000")
		ask(t, c.Members[1], "ZADD", QueuePrefix+"orders/42", "1", "x")
		ask(t, c.Members[0], "SET", "rival", "abc")
		left, err := c.Leftovers()
		if err != nil || len(left) != 2 || left[0].Node != 0 || left[0].Name != "rival" || left[1].Node != 1 ||
			left[1].Name != "orders/42" ||
			!strings.Contains(left[1].Text, "client 7") {
			t.Errorf("leftovers %+v, %v", left, err)
		}
	}
}

// What is asked of the servers of other engines.
func TestEngines(t *testing.T) {
	for name, product := range map[string]string{"postgres": "PostgreSQL ", "mysql": "MariaDB ", "etcd": "etcd 3.",
		"nats": "NATS 2.", "zookeeper": "ZooKeeper 3.", "s3": "S3 "} {
		t.Run(name, func(t *testing.T) {
			group, _ := On(name)
			c := New(t, group, 1, Always, 1)
			if version, err := c.Version(); err != nil || !strings.HasPrefix(version, product) {
				t.Errorf("version %q, %v", version, err)
			}
			if err := c.Members[0].Normal(); err != nil || !c.Admitted(0) {
				t.Errorf("admitted %v, %v", c.Admitted(0), err)
			}
			locker, err := library.Open(library.Config{Library: library.Fenlock, URLs: c.URLs(0), TTL: group.TTL(),
				MaxTTL: group.TTL(), NodeTimeout: group.TTL() / 4, Label: "client 7"})
			if err != nil {
				t.Fatal(err)
			}
			defer locker.Close()
			lease, err := locker.Acquire(t.Context(), "orders/42")
			if err != nil {
				t.Fatal(err)
			}
			left, err := c.Leftovers()
			if err != nil || len(left) != 1 || left[0].Name != "orders/42" || !strings.Contains(left[0].Text, "client 7") {
				t.Errorf("leftovers %+v, %v", left, err)
			}
			lease.Release(t.Context())
			if left, err := c.Leftovers(); err != nil || len(left) != 0 {
				t.Errorf("leftovers %v, %v", left, err)
			}
			c.Members[0].Freeze()
			if c.Admitted(0) || c.Members[0].Normal() == nil {
				t.Error("admitted, or normal, while it stands still")
			}
			c.Members[0].Thaw()
		})
	}
}

// A lease that a clock which was set back would keep for years is ended, and no other.
func TestSettle(t *testing.T) {
	for _, name := range []string{"postgres", "mysql"} {
		t.Run(name, func(t *testing.T) {
			group, _ := On(name)
			c := New(t, group, 1, Always, 1)
			m := c.Members[0]
			locker, err := library.Open(library.Config{Library: library.Fenlock, URLs: c.URLs(0), TTL: TTL, MaxTTL: TTL,
				NodeTimeout: TTL / 4})
			if err != nil {
				t.Fatal(err)
			}
			m.Clock.Step(1000 * time.Hour)
			if _, err := locker.Acquire(t.Context(), "of one that is gone"); err != nil {
				t.Fatal(err)
			}
			locker.Close()
			if locker, err = library.Open(library.Config{Library: library.Fenlock, URLs: c.URLs(0), TTL: TTL, MaxTTL: TTL,
				NodeTimeout: TTL / 4}); err != nil {
				t.Fatal(err)
			}
			defer locker.Close()
			if _, err := locker.Acquire(t.Context(), "held"); err != nil {
				t.Fatal(err)
			}
			m.Clock.Step(-1000 * time.Hour)
			if err := m.Settle(); err != nil {
				t.Fatal(err)
			}
			left, err := c.Leftovers()
			if err != nil || len(left) != 1 || left[0].Name != "held" {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// The same of a lease that several share. An extension of one of them makes the key last as long as
// the longest.
func TestSettleShared(t *testing.T) {
	m := New(t, Groups[0], 1, Off, 1).Members[0]
	m.Clock.Step(time.Hour)
	m.Clock.Step(-time.Hour)
	late, soon := time.Now().Add(time.Hour).UnixMilli(), time.Now().UnixMilli()
	ask(t, m, "SET", "name", fmt.Sprintf("shared:5\n%d 5 0 A\n%d 5 0 B", late, soon), "PXAT", fmt.Sprint(late))
	if err := m.Settle(); err != nil {
		t.Fatal(err)
	}
	value := ask(t, m, "GET", "name")
	if lines := strings.Split(value, "\n"); len(lines) != 3 || strings.Contains(value, fmt.Sprint(late)) ||
		!strings.HasSuffix(lines[1], " 5 0 A") || lines[2] != fmt.Sprintf("%d 5 0 B", soon) {
		t.Errorf("it is %q", value)
	}
}

// A server that does not answer is not admitted, and no client waits for it for long.
func TestNotAdmitted(t *testing.T) {
	c := New(t, Groups[0], 1, Off, 1)
	if err := c.Members[0].Freeze(); err != nil {
		t.Fatal(err)
	}
	if c.Admitted(0) || c.Members[0].Normal() == nil {
		t.Error("admitted, or normal, while it stands still")
	}
	if err := c.Members[0].Thaw(); err != nil {
		t.Fatal(err)
	}
	if !c.Admitted(0) {
		t.Error("not admitted any more")
	}
	ask(t, c.Members[0], "HSET", RegistersKey, "admitted", "somebody else")
	if c.Admitted(0) {
		t.Error("admitted with the mark of another server")
	}
}
