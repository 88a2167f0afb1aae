package tests

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
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
		markAdmitted(t, s, valkeynode.DefaultPrefix)
	}
	return servers
}

// markAdmitted writes what an admission leaves, so that a test need not wait for
// the quarantine of a server's first start.
func markAdmitted(t testing.TB, s *testserver.Server, prefix string) {
	t.Helper()
	id := regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(s.Do("INFO", "replication"))[1]
	s.Do("HSET", "fenlock-registers:"+prefix, "admitted", id, "maxttl", fmt.Sprint(groupTTL.Milliseconds()), "durable", "0")
}

func urls(servers []*testserver.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.URL())
	}
	return all
}

// newLocker returns a client of its own on the nodes at URLs. The timeout is a
// generous one, so that a slow machine is not taken for a dead server.
func newLocker(t testing.TB, urls []string, change ...func(*fenlock.Config)) *fenlock.Locker {
	t.Helper()
	return newLockerWith(t, urls, nil, change...)
}

func newLockerWith(t testing.TB, urls []string, options []valkeynode.Option, change ...func(*fenlock.Config)) *fenlock.Locker {
	t.Helper()
	config := fenlock.Config{TTL: groupTTL, MaxTTL: groupTTL, NodeTimeout: groupTTL / 4}
	for _, url := range urls {
		node, err := valkeynode.Open(url, options...)
		if err != nil {
			t.Fatal(err)
		}
		config.Nodes = append(config.Nodes, node)
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
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("not within 30 s: %v", err)
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
