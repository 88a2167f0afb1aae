package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// groupTTL is a short longest lease, so that a server that lost its memory is
// out for two or three seconds only.
const groupTTL = time.Second

// group starts n servers without persistence that are admitted already.
func group(t testing.TB, kind testserver.Kind, n int, config ...string) []*testserver.Server {
	t.Helper()
	servers := testserver.Group(t, kind, n, config...)
	for _, s := range servers {
		s.MarkAdmitted(valkeynode.DefaultPrefix, groupTTL)
	}
	return servers
}

// admitted returns an error unless each server votes, as far as it can know.
func admitted(servers ...*testserver.Server) error {
	for _, s := range servers {
		if !s.IsAdmitted(valkeynode.DefaultPrefix) {
			return fmt.Errorf("%s is not admitted", s.Addr())
		}
	}
	return nil
}

// onGroups runs a test on a group of each kind, see group.
func onGroups(t *testing.T, n int, test func(t *testing.T, servers []*testserver.Server)) {
	t.Helper()
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		test(t, group(t, kind, n))
	})
}

// networks has a network of its own before each server.
type networks []*proxy.Proxy

// through returns such networks, and the URLs for clients behind them.
func through(t testing.TB, servers ...*testserver.Server) (all networks, urls []string) {
	t.Helper()
	for _, s := range servers {
		p := proxy.New(s.Addr(), nil)
		t.Cleanup(p.Close)
		scheme, _, _ := strings.Cut(s.URL(), "://")
		all, urls = append(all, p), append(urls, scheme+"://"+p.Addr(0)+"?name="+s.Addr())
	}
	return all, urls
}

// impose makes all of them worse, until lift is called.
func (all networks) impose(r proxy.Rule) (lift func()) {
	var lifts []func()
	for _, p := range all {
		lifts = append(lifts, p.Impose(r))
	}
	return func() {
		for _, lift := range lifts {
			lift()
		}
	}
}

func urls(servers []*testserver.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.URL())
	}
	return all
}

// newConfig is of a client on the nodes at URLs. The timeout is a generous one, so
// that a slow machine is not taken for a dead server.
func newConfig(urls []string, options ...valkeynode.Option) (fenlock.Config, error) {
	config := fenlock.Config{TTL: groupTTL, MaxTTL: groupTTL, NodeTimeout: groupTTL / 4}
	for _, url := range urls {
		node, err := valkeynode.Open(url, options...)
		if err != nil {
			return config, err
		}
		config.Nodes = append(config.Nodes, node)
	}
	return config, nil
}

// newLocker returns a client of its own.
func newLocker(t testing.TB, urls []string, change ...func(*fenlock.Config)) *fenlock.Locker {
	t.Helper()
	return newLockerWith(t, urls, nil, change...)
}

func newLockerWith(t testing.TB, urls []string, options []valkeynode.Option,
	change ...func(*fenlock.Config)) *fenlock.Locker {
	t.Helper()
	config, err := newConfig(urls, options...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&config)
	}
	l, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// bounded returns a context that a hung test runs into, and no other.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t testing.TB, l *fenlock.Locker, name string) *fenlock.Lock {
	t.Helper()
	lock, err := l.Acquire(bounded(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func release(t testing.TB, lock *fenlock.Lock) {
	t.Helper()
	if err := lock.Release(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// eventually tries again until there is no error. The bound is for a hung test,
// not a claim about speed.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("never: %v", err)
}

// leases counts the servers that hold a lease on a name, "" for any holder's.
func leases(servers []*testserver.Server, name string) (n int) {
	for _, s := range servers {
		if s.Pid() != 0 && s.Do("EXISTS", "fenlock:"+name) == "1" {
			n++
		}
	}
	return n
}

// noLeases waits until the servers hold none on a name.
func noLeases(t testing.TB, servers []*testserver.Server, name string) {
	t.Helper()
	eventually(t, func() error {
		if n := leases(servers, name); n != 0 {
			return fmt.Errorf("%d leases are left", n)
		}
		return nil
	})
}
