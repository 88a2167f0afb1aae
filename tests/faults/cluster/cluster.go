//go:build linux

package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/tests/faults/wallclock"
)

// Cluster is a group of servers. Safe for concurrent use.
type Cluster struct {
	Members []*Member
	kind    testserver.Kind
}

// Persistence is what a server keeps on disk.
type Persistence string

// The kinds of persistence.
const (
	Always   Persistence = "always"   // each write is on disk before it is answered
	Everysec Persistence = "everysec" // a crash costs the last second
	Off      Persistence = "off"      // a crash costs everything
)

// TTL is the longest lease of the group. A server that lost its memory is out for a
// little more than twice as long.
const TTL = time.Second

// The keys of fenlock that are no leases.
const (
	RegistersKey = "fenlock-registers:" + valkeynode.DefaultPrefix
	QueuePrefix  = "fenlock-line:" + valkeynode.DefaultPrefix // of waiter queues
)

// New starts n servers that are admitted already. The seed decides how the proxies'
// delays vary. The test's end stops everything.
func New(t testing.TB, kind testserver.Kind, n int, persistence Persistence, seed uint64) *Cluster {
	t.Helper()
	// Faults strike from other goroutines than the test's, so what fails in a server
	// has to be an error and not the test's end.
	outside := &testserver.Outside{}
	t.Cleanup(outside.Close)
	c := &Cluster{kind: kind}
	err := testserver.Try(func() error {
		library := wallclock.Build(outside)
		for i := range n {
			clock := wallclock.New(outside, library)
			start := func() *testserver.Server {
				return testserver.StartWith(outside, kind, clock.Environment, configuration(persistence)...)
			}
			m := &Member{Clock: clock, start: start, server: start()}
			if err := clock.Check(m.server.Pid()); err != nil {
				return err
			}
			if err := m.MarkAdmitted(persistence == Always); err != nil {
				return err
			}
			m.Proxy = proxy.New(m.server.Addr(), rand.New(rand.NewPCG(seed, uint64(i))))
			outside.Cleanup(m.Proxy.Close)
			c.Members = append(c.Members, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// configuration returns what servers need so that all faults are possible.
func configuration(p Persistence) []string {
	config := []string{
		// The harness's own way in, whatever becomes of the clients' user.
		fmt.Sprintf("user %s on >%s ~* &* +@all", adminUser, adminPassword),
		// CONFIG SET dbfilename, for misconf.
		"enable-protected-configs yes",
		// A replica is copied at once.
		"repl-diskless-sync-delay 0",
		// The allocator's thread sleeps until a time of the wall clock, and would spin
		// if that were set back: a fault of the harness, not of the server.
		"jemalloc-bg-thread no",
	}
	switch p {
	case Always:
		config = append(config, "appendonly yes", "appendfsync always", "no-appendfsync-on-rewrite no", "aof-load-truncated no")
	case Everysec:
		config = append(config, "appendonly yes", "appendfsync everysec")
	}
	return config
}

// URLs returns the proxies' addresses for one client process, so that the network
// can fail for some clients only. Clients with even numbers are in one half
// of a partition, those with odd ones in the other.
func (c *Cluster) URLs(client int) []string {
	var all []string
	for i, m := range c.Members {
		all = append(all, fmt.Sprintf("%s://%s?name=%d", c.kind, m.Proxy.Addr(client), i))
	}
	return all
}

// Admitted reports whether a server's memory counts: it votes, as far as clients
// reach it. False also if it does not answer.
func (c *Cluster) Admitted(node int) bool {
	return testserver.IsAdmitted(c.Members[node].asker(Brief), valkeynode.DefaultPrefix)
}

// Leftover is a lease that is still on a server.
type Leftover struct {
	Node int // from 0
	Name string
	Text string // whose, and for how long
}

// Leftovers returns the leases that are on the servers. All keys count but the
// registers and the waiter queues, which end by themselves.
func (c *Cluster) Leftovers() (all []Leftover, err error) {
	for i, m := range c.Members {
		// No key has a space in it.
		reply, err := m.Ask(Patience, "EVAL", `
			local all = {}
			for _, key in ipairs(redis.call('KEYS', '*')) do
				local holder = redis.call('TYPE', key).ok
				if holder == 'string' then
					holder = redis.call('GET', key)
				end
				all[#all+1] = key .. ' ' .. tostring(redis.call('PTTL', key)) .. ' ' .. holder
			end
			return table.concat(all, '\n')`, "0")
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		for line := range strings.Lines(reply) {
			words := strings.SplitN(strings.TrimSpace(line), " ", 3)
			if len(words) != 3 {
				return nil, fmt.Errorf("node %d: what is %q?", i+1, reply)
			}
			if key := words[0]; key != RegistersKey && !strings.HasPrefix(key, QueuePrefix) {
				text := fmt.Sprintf("holder %s, %s ms left", words[2], words[1])
				all = append(all, Leftover{Node: i, Name: strings.TrimPrefix(key, valkeynode.DefaultPrefix), Text: text})
			}
		}
	}
	return all, nil
}

// Version returns what the servers call themselves: "Valkey 8.0.1".
func (c *Cluster) Version() (string, error) {
	info, err := c.Members[0].Ask(Patience, "INFO", "server")
	kind := string(c.kind)
	return strings.ToUpper(kind[:1]) + kind[1:] + " " + testserver.Field(info, kind+"_version"), err
}
