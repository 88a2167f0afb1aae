package valkeynode_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// client opens a Locker on servers, which are named by their URLs.
func client(t *testing.T, maxTTL time.Duration, change func(*fenlock.Config), urls ...string) *fenlock.Locker {
	t.Helper()
	config := fenlock.Config{TTL: maxTTL, MaxTTL: maxTTL}
	for _, u := range urls {
		config.Nodes = append(config.Nodes, open(t, u))
	}
	if change != nil {
		change(&config)
	}
	l, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// takes returns a lock that must be free in the end.
func takes(t *testing.T, l *fenlock.Locker, name string) *fenlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	lock, err := l.Acquire(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// refusedFor checks that a client gets no lock, and is told why.
func refusedFor(t *testing.T, l *fenlock.Locker, says ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lock, err := l.Acquire(ctx, "a")
	if err == nil {
		t.Fatalf("it has the lock, with token %d; want an error that says %q", lock.Token(), says)
	}
	for _, text := range says {
		if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v; want a misconfiguration that says %q", err, text)
		}
	}
}

func urls(servers ...*testserver.Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.URL())
	}
	return all
}

// Where clients reach a server by different addresses, its name tells that it is one; or
// the operator does.
func TestMembersWithOtherAddresses(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		named := func(other bool) (all []string) {
			for i, s := range servers {
				u := s.URL() + "?name=" + string(rune('a'+i))
				if other {
					u = strings.Replace(u, "127.0.0.1", "localhost", 1)
				}
				all = append(all, u)
			}
			return all
		}
		takes(t, client(t, groupTTL, nil, named(false)...), "one")
		takes(t, client(t, groupTTL, nil, named(true)...), "two")
		third := client(t, groupTTL, nil, urls(servers...)...)
		refusedFor(t, third, "a, b, c", servers[0].Addr())
		for _, s := range servers {
			s.Do("HSET", registersKey, "members", "*")
		}
		takes(t, third, "three") // it need not be started anew
	})
}
