//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/wallclock"
)

// Cluster is a group of servers. Safe for concurrent use.
type Cluster struct {
	Members []*Member
	group   Group
}

// New starts n servers that are admitted already. The seed decides how the proxies'
// delays vary. The test's end stops everything.
func New(t testing.TB, group Group, n int, persistence Persistence, seed uint64) *Cluster {
	t.Helper()
	// Faults strike from other goroutines than the test's, so what fails in a server
	// has to be an error and not the test's end.
	outside := &testserver.Outside{}
	t.Cleanup(outside.Close)
	c := &Cluster{group: group, Members: make([]*Member, n)}
	err := testserver.Try(func() error {
		preload := wallclock.Build(outside)
		errs := make([]error, n)
		var starting sync.WaitGroup
		for i := range n {
			starting.Go(func() {
				errs[i] = testserver.Try(func() (err error) {
					c.Members[i], err = newMember(outside, group.At(i), i, persistence, preload, seed)
					return err
				})
			})
		}
		starting.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return c.Admit()
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newMember(t testing.TB, e *Engine, i int, persistence Persistence, preload string, seed uint64) (*Member, error) {
	clock := wallclock.New(t, preload)
	var environment []string
	if e.preloads {
		environment = clock.Environment
	}
	start := func() Server { return e.start(t, persistence, environment) }
	m := &Member{Engine: e, Clock: clock, number: i, start: start, server: start()}
	if e.preloads {
		if err := clock.Check(m.server.Pid()); err != nil {
			return nil, err
		}
	}
	if e.admitted == nil {
		if err := m.look(t); err != nil {
			return nil, err
		}
	}
	if e.prepare != nil {
		if err := e.prepare(m, persistence); err != nil {
			return nil, err
		}
	}
	m.Proxy = proxy.New(m.server.Addr(), rand.New(rand.NewPCG(seed, uint64(i))))
	t.Cleanup(m.Proxy.Close)
	return m, nil
}

// Admit has servers admitted that were never used, or that have forgotten, as a client that reaches
// all of them.
func (c *Cluster) Admit() error {
	ctx, cancel := context.WithTimeout(context.Background(), HealLimit)
	defer cancel()
	config := library.Config{
		Library: library.Fenlock, New: true, TTL: c.group.TTL(), MaxTTL: c.group.TTL(), NodeTimeout: c.group.TTL() / 4,
	}
	all := true
	for i, m := range c.Members {
		config.URLs = append(config.URLs, m.Engine.url(m.server.Addr(), m.server.Addr(), i))
		all = all && c.Admitted(i)
	}
	if all {
		return nil
	}
	locker, err := library.Open(config)
	if err != nil {
		return err
	}
	defer locker.Close()
	for i := range c.Members {
		for !c.Admitted(i) {
			lease, err := locker.Acquire(ctx, "admission")
			if err == nil {
				err = lease.Release(ctx)
			}
			if ctx.Err() != nil {
				return fmt.Errorf("server %d is not admitted within %v: %w", i+1, HealLimit, err)
			}
		}
	}
	return nil
}

// URLs returns the proxies' addresses for one client process, so that the network
// can fail for some clients only. Clients with even numbers are in one half
// of a partition, those with odd ones in the other.
func (c *Cluster) URLs(client int) []string {
	var all []string
	for i, m := range c.Members {
		through := ""
		if d, ok := m.Server().(*disk); ok {
			through = d.Through(client)
		} else {
			through = m.Proxy.Addr(client)
		}
		all = append(all, m.Engine.url(m.Server().Addr(), through, i))
	}
	return all
}

// Admitted reports whether a server's memory counts: it votes, as far as clients
// reach it. False also if it does not answer.
func (c *Cluster) Admitted(node int) bool {
	m := c.Members[node]
	if m.Engine.admitted != nil {
		return m.Engine.admitted(m)
	}
	limit := Brief
	if m.Engine.Local { // all of its rooms are read, and it answers late rather than never
		limit = Patience
	}
	e, err := m.examine(limit)
	return err == nil && e.Admitted
}

// Leftovers returns the leases that are on the servers.
func (c *Cluster) Leftovers() (all []Leftover, err error) {
	for i, m := range c.Members {
		look := m.leftovers
		if own := m.Engine.leftovers; own != nil {
			look = func() ([]Leftover, error) { return own(m) }
		}
		left, err := look()
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		for _, l := range left {
			l.Node = i
			all = append(all, l)
		}
	}
	return all, nil
}

// Version returns what the servers call themselves: "Valkey 8.0.1", and what others of
// the group do after a comma.
func (c *Cluster) Version() (string, error) {
	var all []string
	for _, m := range c.Members[:min(len(c.group.Engines), len(c.Members))] {
		version := m.version
		if own := m.Engine.version; own != nil {
			version = func() (string, error) { return own(m) }
		}
		v, err := version()
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	return strings.Join(all, ", "), nil
}
