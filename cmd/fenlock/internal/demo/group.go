//go:build linux || darwin || freebsd

package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// group is the servers of a scene, with the demo's own view of them.
type group struct {
	*stage
	servers []*server
	admin   *admin.Admin
	maxTTL  time.Duration
}

// newGroup starts n servers, which all vote at once.
func (st *stage) newGroup(n int, durable bool, maxTTL time.Duration) *group {
	g := &group{stage: st, maxTTL: maxTTL}
	for i := range n {
		g.servers = append(g.servers, st.newServer(fmt.Sprintf("s%d", i+1), durable))
	}
	nodes, err := openNodes(g.urls())
	st.must(err)
	st.atEnd(func() {
		for _, n := range nodes {
			n.Close()
		}
	})
	g.admin, err = admin.New(nodes)
	st.must(err)
	g.admit()
	list := filepath.Join(st.folder, "nodes")
	st.must(os.WriteFile(list, []byte(strings.Join(g.urls(), "\n")+"\n"), 0o600))
	st.say("demo", Started, "starts %d %s servers, s1 to s%d, on 127.0.0.1", n, st.product, n)
	st.say("", Command, "fenlock ui --nodes-file %s", list)
	return g
}

// urls returns the nodes of a client that reaches all servers but some: at the URL of these, no
// server listens.
func (g *group) urls(without ...*server) (all []string) {
	for _, s := range g.servers {
		port := s.port
		if slices.Contains(without, s) {
			port = g.freePort()
		}
		all = append(all, fmt.Sprintf("valkey://127.0.0.1:%d?name=%s", port, s.name))
	}
	return all
}

// admit has the servers vote at once. They need not wait, because the demo knows what they
// cannot know: that they are new.
func (g *group) admit() {
	c := config("demo", g.maxTTL, g.maxTTL)
	c.NewServers = true
	l, err := open(c, g.urls())
	g.must(err)
	defer l.Close()
	g.until("new servers vote", func() bool {
		if lock, err := l.TryAcquire(g.ctx, "demo/new"); err == nil {
			lock.Release(g.ctx)
		}
		return !slices.ContainsFunc(g.examine(), func(n admin.NodeInfo) bool { return !n.Examination.Admitted })
	})
}

// examine returns what the servers say of themselves, in their order.
func (g *group) examine() []admin.NodeInfo {
	return g.admin.Examine(g.ctx, node.Look{MaxTTL: g.maxTTL})
}

// locker returns a client of the group in this process.
func (g *group) locker(c fenlock.Config, without ...*server) *fenlock.Locker {
	l, err := open(c, g.urls(without...))
	g.must(err)
	g.atEnd(func() { l.Close() })
	return l
}

// acquire waits for a lock.
func (g *group) acquire(l *fenlock.Locker, name string) *fenlock.Lock {
	ctx, cancel := context.WithTimeout(g.ctx, patience)
	defer cancel()
	lock, err := l.Acquire(ctx, name)
	g.must(err)
	return lock
}

// config is that of a client. Its node timeout is longer than usual: the machine may be busy,
// and servers that are down refuse at once.
func config(label string, ttl, maxTTL time.Duration) fenlock.Config {
	return fenlock.Config{TTL: ttl, MaxTTL: maxTTL, Label: label, NodeTimeout: min(ttl/5, time.Second)}
}

// open returns the Locker of a configuration, for the nodes at some URLs.
func open(c fenlock.Config, urls []string) (*fenlock.Locker, error) {
	var err error
	if c.Nodes, err = openNodes(urls); err != nil {
		return nil, err
	}
	return fenlock.New(c)
}

func openNodes(urls []string) (nodes []fenlock.Node, err error) {
	for _, url := range urls {
		n, err := valkeynode.Open(url)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
