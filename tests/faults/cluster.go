//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// persistence is what a server keeps on disk.
type persistence string

// The kinds of persistence.
const (
	always   persistence = "always"   // each write is on disk before it is answered
	everysec persistence = "everysec" // a crash costs the last second
	off      persistence = "off"      // a crash costs everything
)

// groupTTL is the longest lease of the group. A server that lost its memory is out
// for a little more than twice as long.
const groupTTL = time.Second

const (
	registersKey = "fenlock-registers:" + valkeynode.DefaultPrefix
	linePrefix   = "fenlock-line:" + valkeynode.DefaultPrefix
)

// cluster is a group of servers that know nothing of each other, each with a wall
// clock of its own and behind a proxy of its own. Safe for concurrent use.
type cluster struct {
	kind    testserver.Kind
	members []*member
}

// newCluster starts n servers that are admitted already. The seed decides how the
// proxies' delays vary. The test's end stops everything.
func newCluster(t testing.TB, kind testserver.Kind, n int, persistence persistence, seed uint64) *cluster {
	t.Helper()
	// Faults strike from other goroutines than the test's, so what fails in a server
	// has to be an error and not the test's end.
	outside := &testserver.Outside{}
	t.Cleanup(outside.Close)
	c := &cluster{kind: kind}
	err := testserver.Try(func() error {
		library := buildWallclock(outside)
		for i := range n {
			clock := newWallclock(outside, library)
			start := func() *testserver.Server {
				return testserver.StartWith(outside, kind, clock.environment, configuration(persistence)...)
			}
			m := &member{start: start, clock: clock, server: start()}
			if err := m.checkClock(); err != nil {
				return err
			}
			if err := m.markAdmitted(persistence == always); err != nil {
				return err
			}
			m.proxy = newProxy(m.server.Addr(), rand.New(rand.NewPCG(seed, uint64(i))))
			outside.Cleanup(m.proxy.close)
			c.members = append(c.members, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// configuration returns what servers need so that all faults are possible.
func configuration(p persistence) []string {
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
	case always:
		config = append(config, "appendonly yes", "appendfsync always", "no-appendfsync-on-rewrite no")
	case everysec:
		config = append(config, "appendonly yes", "appendfsync everysec")
	}
	return config
}

// urls returns the proxies' addresses.
func (c *cluster) urls() []string { return c.urlsFor(0) }

// urlsFor returns the proxies' addresses for one client process, so that the
// network can fail for some clients only. Clients with even numbers are in one half
// of a partition, those with odd ones in the other.
func (c *cluster) urlsFor(client int) []string {
	var all []string
	for _, m := range c.members {
		all = append(all, string(c.kind)+"://"+m.proxy.addr(client))
	}
	return all
}

// admitted reports whether a server's memory counts: it votes, as far as clients
// reach it. False also if it does not answer.
func (c *cluster) admitted(node int) bool {
	m := c.members[node]
	mark, err := m.ask(askTimeout, "HGET", registersKey, "admitted")
	if err != nil {
		return false
	}
	info, err := m.ask(askTimeout, "INFO", "replication")
	return err == nil && field(info, "master_replid") == mark && field(info, "role") == "master"
}

// leftover is a lease that is still on a server.
type leftover struct {
	node int // from 0
	name string
	text string // whose, and for how long
}

// leftovers returns the leases that are on the servers. All keys count but the
// registers and the lines, which end by themselves.
func (c *cluster) leftovers() ([]leftover, error) {
	var all []leftover
	for i, m := range c.members {
		// No key and no label has a space in it.
		reply, err := m.ask(patientTimeout, "EVAL", `
			local all = {}
			for _, key in ipairs(redis.call('KEYS', '*')) do
				all[#all+1] = key .. ' ' .. tostring(redis.call('PTTL', key))
			end
			return table.concat(all, '\n')`, "0")
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		for line := range strings.Lines(reply) {
			key, left, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok {
				return nil, fmt.Errorf("node %d: what is %q?", i+1, reply)
			}
			if key == registersKey || strings.HasPrefix(key, linePrefix) {
				continue
			}
			holder, err := m.ask(patientTimeout, "GET", key)
			if err != nil {
				return nil, fmt.Errorf("node %d: %w", i+1, err)
			}
			if holder == "(nil)" {
				continue // it has just ended
			}
			text := fmt.Sprintf("holder %s, %s ms left", holder, left)
			all = append(all, leftover{node: i, name: strings.TrimPrefix(key, valkeynode.DefaultPrefix), text: text})
		}
	}
	return all, nil
}

// version returns what the servers call themselves: "Valkey 8.0.1".
func (c *cluster) version() (string, error) {
	info, err := c.members[0].ask(patientTimeout, "INFO", "server")
	if err != nil {
		return "", err
	}
	if version := field(info, "valkey_version"); version != "" {
		return "Valkey " + version, nil
	}
	if version := field(info, "redis_version"); version != "" {
		return "Redis " + version, nil
	}
	return "", errors.New("INFO names no version")
}

// field returns a field of an INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}
