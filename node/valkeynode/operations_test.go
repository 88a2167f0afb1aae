package valkeynode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
)

// The procedures of docs/operations.md, step by step.

// haveMembers has servers record a new list of members.
func haveMembers(members []*testserver.Server, on ...*testserver.Server) {
	var list []string
	for _, s := range members {
		list = append(list, s.Addr())
	}
	for _, s := range on {
		s.Do("HSET", registersKey, "members", strings.Join(list, " "))
	}
}

// disconnect ends all connections of clients, so that they read what is recorded.
func disconnect(servers ...*testserver.Server) {
	for _, s := range servers {
		s.Do("CLIENT", "KILL", "TYPE", "normal")
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
}

// allVote takes a lock again and again until all servers vote.
func allVote(t *testing.T, l *fenlock.Locker, servers ...*testserver.Server) {
	t.Helper()
	eventually(t, func() error {
		for _, s := range servers {
			if !s.IsAdmitted("fenlock:") {
				return errors.Join(errors.New("not admitted yet"), takes(t, l, "b").Release(t.Context()))
			}
		}
		return nil
	})
}

// A node is replaced by one with another address, while clients of the old group go on.
func TestReplacingANode(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		old := client(t, groupTTL, nil, urls(servers...)...)
		held := takes(t, old, "a")

		// 1. The node that goes is ended.
		servers[2].Kill()
		// 2. The others get the new list, and their clients have to read it.
		added := testserver.Start(t, kind)
		added.Kill() // its address is known now
		replaced := []*testserver.Server{added, servers[0], servers[1]}
		haveMembers(replaced, servers[:2]...)
		disconnect(servers[:2]...)
		// 3. The new node is started, empty, and not before.
		added.Restart()
		// 4. The clients are started with the new list.
		newer := client(t, groupTTL, nil, urls(replaced...)...)
		lock := takes(t, newer, "a")
		if held.Remaining() > 0 || lock.Token() <= held.Token() {
			t.Errorf("two hold at once: the old one for another %v with token %d, the new one with %d", held.Remaining(),
				held.Token(), lock.Token())
		}
		refusedFor(t, old, servers[2].Addr(), added.Addr())
		if err := lock.Release(t.Context()); err != nil && !errors.Is(err, fenlock.ErrLost) {
			t.Error(err)
		}

		// The new node votes, and knows the tokens: another one may go.
		allVote(t, newer, added)
		servers[0].Kill()
		if again := takes(t, newer, "a"); again.Token() <= lock.Token() {
			t.Errorf("token %d after %d", again.Token(), lock.Token())
		}
	})
}

// One of three is lost for good while another restarts without its memory. What the other waits for
// is an empty server at the address of the first.
func TestLossOfOneWhileAnotherRestarts(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		l := client(t, groupTTL, nil, urls(servers...)...)
		before := takes(t, l, "a").Token()
		allVote(t, l, servers...) // a majority was enough for the lock
		servers[0].Kill()
		servers[1].Kill()
		servers[1].Restart()
		eventually(t, func() error {
			_, err := l.TryAcquire(t.Context(), "a")
			if err == nil || !errors.Is(err, fenlock.ErrNoQuorum) {
				t.Fatalf("with one server of three that has its memory: %v", err)
			}
			if !strings.Contains(err.Error(), "must be rebuilt from 2 other nodes") {
				return err
			}
			return nil
		})
		servers[0].Restart() // an empty one
		if after := takes(t, l, "a").Token(); after <= before {
			t.Errorf("token %d after %d", after, before)
		}
	})
}

// Two of three are lost for good, three times: there are empty servers at their addresses, then at
// other addresses, and then none.
func TestMajorityIsLostForGood(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		l := client(t, groupTTL, nil, urls(servers...)...)
		held := takes(t, l, "a")
		// after takes the lock, and reports if it was held, or the token is not the larger one.
		after := func(l *fenlock.Locker) {
			t.Helper()
			next := takes(t, l, "a")
			if held.Remaining() > 0 || next.Token() <= held.Token() {
				t.Errorf("held for another %v with token %d, and taken with %d", held.Remaining(), held.Token(), next.Token())
			}
			held = next
		}
		lose := func() {
			servers[1].Kill()
			servers[2].Kill()
		}

		lose()
		servers[1].Restart() // what it had was in memory
		servers[2].Restart()
		after(l)

		l.Close()
		lose()
		servers = []*testserver.Server{servers[0], testserver.Start(t, kind), testserver.Start(t, kind)}
		lose() // their addresses are known now
		haveMembers(servers, servers[0])
		servers[1].Restart()
		servers[2].Restart()
		l = client(t, groupTTL, nil, urls(servers...)...)
		after(l)

		l.Close()
		lose()
		servers = servers[:1]
		time.Sleep(groupTTL)
		haveMembers(servers, servers[0])
		after(client(t, groupTTL, nil, urls(servers...)...))
	})
}

// Three servers become five while no client is there.
func TestThreeServersBecomeFive(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		old := client(t, groupTTL, nil, urls(servers...)...)
		before := takes(t, old, "a").Token()
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { // one MaxTTL
			for _, s := range servers {
				if s.Do("EXISTS", "fenlock:a") != "0" {
					return errors.New("the lock's lease has not ended")
				}
			}
			return nil
		})
		all := append(servers, testserver.Group(t, kind, 2)...)
		haveMembers(all, servers...)
		l := client(t, groupTTL, nil, urls(all...)...)
		allVote(t, l, all[3:]...)
		refusedFor(t, client(t, groupTTL, nil, urls(servers...)...), all[4].Addr())
		all[0].Kill()
		all[1].Kill()
		if after := takes(t, l, "a").Token(); after <= before {
			t.Errorf("token %d after %d", after, before)
		}
	})
}

// MaxTTL is raised while clients with the old one go on.
func TestRaisingMaxTTL(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		servers := testserver.Group(t, kind, 3)
		old := client(t, groupTTL, nil, urls(servers...)...)
		held := takes(t, old, "a")
		for _, s := range servers {
			s.Do("HSET", registersKey, "maxttl", fmt.Sprint(2*groupTTL.Milliseconds()))
		}
		newer := client(t, 2*groupTTL, nil, urls(servers...)...)
		if _, err := newer.TryAcquire(t.Context(), "a"); !errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("with the new value: %v", err)
		}
		eventually(t, func() error { return held.Extend(t.Context()) }) // a client that is connected goes on
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if after := takes(t, newer, "a"); after.Token() <= held.Token() {
			t.Errorf("token %d after %d", after.Token(), held.Token())
		}
		disconnect(servers...)
		refusedFor(t, old, groupTTL.String(), (2 * groupTTL).String())
		// It is what a server waits for that forgot its locks.
		servers[0].Kill()
		servers[0].Restart()
		allVote(t, newer, servers[0])
		if got := servers[0].Do("HGET", registersKey, "maxttl"); got != fmt.Sprint(2*groupTTL.Milliseconds()) {
			t.Errorf("a server that came back has the longest lease %s", got)
		}
	})
}
