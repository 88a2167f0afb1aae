//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// group is the nodes of a scene: some servers or, where none is installed, one SQLite
// file.
type group struct {
	*cast
	servers []*server
	looking []*valkeynode.Node // the demo's own, to look at the servers
}

// newGroup starts so many servers, which all vote at once.
func (st *stage) newGroup(n int, durable bool, maxTTL time.Duration) *group {
	g := &group{}
	var urls, names []string
	for i := range n {
		s := st.newServer(fmt.Sprintf("s%d", i+1), durable)
		names = append(names, s.name)
		g.servers = append(g.servers, s)
		urls = append(urls, s.url())
		n, err := valkeynode.Open(s.url())
		st.must(err)
		st.atEnd(func() { n.Close() })
		g.looking = append(g.looking, n)
	}
	g.cast = newCast(st, urls, maxTTL)
	g.found()
	st.did(names, "demo", Started, "starts %d %s servers, s1 to s%d, on 127.0.0.1", n, st.binary, n)
	return g
}

// newGroupOrFile is newGroup, or one SQLite file where no server is installed.
func (st *stage) newGroupOrFile(n int, maxTTL time.Duration) *group {
	if st.binary != nil {
		return st.newGroup(n, false, maxTTL)
	}
	st.say("demo", Does, "finds no valkey-server, no redis-server: the lock is in a SQLite file")
	file := url.URL{Scheme: "sqlite", Path: filepath.Join(st.folder, "locks.db")}
	return &group{cast: newCast(st, []string{file.String()}, maxTTL)}
}

// clientWithout starts a client that cannot reach one of the servers: it has another
// address for it, where nobody listens.
func (g *group) clientWithout(s *server, name string, ttl time.Duration) *client {
	urls := slices.Clone(g.nodes)
	urls[slices.Index(g.servers, s)] = s.urlAt(g.stage.freePort())
	return g.clientOf(name, urls, ttl)
}

// found has the servers vote at once. They need not wait, because the demo knows what
// they cannot know: that they are new.
func (g *group) found() {
	locker := g.locker(true)
	defer locker.Close()
	g.stage.until("new servers vote", func() bool {
		if lock, err := locker.TryAcquire(g.stage.ctx, "demo/found"); err == nil {
			lock.Release(g.stage.ctx)
		}
		return !slices.ContainsFunc(g.servers, func(s *server) bool { return !g.votes(s) })
	})
}

// waiters returns how many wait for a lock that somebody has, as a majority of the nodes
// answers the demo itself; 0 if it does not.
func (g *group) waiters(locker *fenlock.Locker, name string) int {
	_, err := locker.TryAcquire(g.stage.ctx, name)
	g.stage.require(err != nil, "somebody has %q, and the demo got it too", name)
	var held *fenlock.HeldError
	if !errors.As(err, &held) {
		return 0
	}
	return held.Ahead
}

// locker returns the demo's own locker for the group.
func (g *group) locker(newServers bool) *fenlock.Locker {
	var nodes []fenlock.Node
	for _, url := range g.nodes {
		n, err := open(url)
		g.stage.must(err)
		nodes = append(nodes, n)
	}
	l, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: g.longest, MaxTTL: g.longest, NodeTimeout: nodeTimeout(g.longest), NewServers: newServers})
	g.stage.must(err)
	return l
}

// votes reports whether a server is admitted.
func (g *group) votes(s *server) bool {
	ctx, cancel := context.WithTimeout(g.stage.ctx, time.Second)
	defer cancel()
	r, err := g.nodeOf(s).Registers(ctx)
	return err == nil && r.Admitted
}

// leases shows on which servers a client has the lease of a name: "s1 s2 --".
func (g *group) leases(name string, of *client) string {
	var row []string
	for _, s := range g.servers {
		row = append(row, "--")
		if g.hasLease(s, name, of) {
			row[len(row)-1] = s.name
		}
	}
	return strings.Join(row, " ")
}

func (g *group) hasLease(s *server, name string, of *client) bool {
	ctx, cancel := context.WithTimeout(g.stage.ctx, time.Second)
	defer cancel()
	lease, err := g.nodeOf(s).Inspect(ctx, name)
	return err == nil && lease.Remaining > 0 && lease.Label == of.name
}

func (g *group) nodeOf(s *server) *valkeynode.Node { return g.looking[slices.Index(g.servers, s)] }
