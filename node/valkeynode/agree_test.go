package valkeynode_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
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

// A client with a shorter MaxTTL would let a server vote before the leases have ended
// that it forgot; whichever is longer, both are told.
func TestMaxTTLDiffers(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		all := urls(testserver.Group(t, kind, 3)...)
		takes(t, client(t, groupTTL, nil, all...), "held")
		for _, other := range []time.Duration{groupTTL / 2, 2 * groupTTL} {
			refusedFor(t, client(t, other, nil, all...), groupTTL.String(), other.String())
		}
	})
}

// Groups that share a server only would both grant a lock.
func TestMembersDiffer(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 5)
		one := client(t, groupTTL, nil, urls(servers[:3]...)...)
		takes(t, one, "a")
		// The lock is held by a majority. The server that both groups name has to know of its group, too.
		eventually(t, func() error {
			if _, err := one.TryAcquire(t.Context(), "another"); !servers[2].IsAdmitted("fenlock:") {
				return errors.Join(errors.New("not admitted yet"), err)
			}
			return nil
		})
		// The other servers are new, and a majority of the other group.
		lists := []string{servers[0].Addr(), servers[1].Addr(), servers[2].Addr(), servers[3].Addr(), servers[4].Addr()}
		refusedFor(t, client(t, groupTTL, nil, urls(servers[2:]...)...), lists...)
		for i, s := range servers[3:] {
			if got := s.Do("HGET", registersKey, "admitted"); got != "(nil)" && got != "" {
				t.Errorf("the new server %d was admitted to both groups: %q", i, got)
			}
		}
		// In another order, or by another scheme, they are the same ones.
		same := urls(servers[2], servers[0], servers[1])
		same[0] = "redis" + same[0][strings.Index(same[0], "://"):]
		takes(t, client(t, groupTTL, nil, same...), "b")
	})
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

// Clients that disagree admit new servers at the same time: one of them only does.
func TestDisagreementAtFirstContact(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		grownUp(t, server)
		won := make(chan time.Duration, 2)
		for _, maxTTL := range []time.Duration{groupTTL, groupTTL - 100*time.Millisecond} {
			n := joined(t, server.URL(), maxTTL)
			go func() {
				r := request("a "+maxTTL.String(), "me")
				r.TTL = 100 * time.Millisecond
				for {
					a, err := n.Do(context.Background(), as(node.Acquire, r))
					if err == nil && a.Status == node.Rejoining {
						continue
					}
					if err != nil {
						maxTTL = 0
					}
					won <- maxTTL
					return
				}
			}()
		}
		first, second := <-won, <-won
		if (first == 0) == (second == 0) {
			t.Errorf("the clients were admitted with %v and %v", first, second)
		}
	})
}
