package valkeynode_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/valkey-io/valkey-go"
)

// One Redis with a replica behind one address, which is what most managed services are. It is a
// group of one node, whose address moves to the replica when that is promoted. docs/valkey.md says
// what it promises.

const (
	managedTTL = 500 * time.Millisecond
	// managedMaxTTL is longer than the TTL, as it is by default. So there is time in which the
	// holder's lease has ended and no client may have the lock yet.
	managedMaxTTL = 1500 * time.Millisecond
)

// managed is such a service.
type managed struct {
	primary, replica *testserver.Server
	address          *proxy.Proxy // what clients know
	replication      *proxy.Proxy // between the two servers
}

// manage starts a service whose replica is in step and which has served a client.
func manage(t *testing.T, kind testserver.Kind) *managed {
	t.Helper()
	m := &managed{
		primary: testserver.Start(t, kind, "repl-diskless-sync-delay 0"),
		replica: testserver.Start(t, kind),
	}
	m.address, m.replication = proxy.New(m.primary.Addr(), nil), proxy.New(m.primary.Addr(), nil)
	t.Cleanup(m.address.Close)
	t.Cleanup(m.replication.Close)
	host, port, _ := strings.Cut(m.replication.Addr(0), ":")
	m.replica.Do("REPLICAOF", host, port)
	eventually(t, func() error {
		if infoField(t, m.replica, "master_link_status") != "up" {
			return errors.New("not in step yet")
		}
		return nil
	})
	m.primary.MarkAdmitted("fenlock:", managedMaxTTL) // how a service begins is not what this is about
	first := takes(t, m.client(t), "before")
	givesBack(t, first)
	m.hasReplicated(t, first.Token())
	grownUp(t, m.replica) // or it would be out for its start alone
	return m
}

// givesBack releases a lock. A server that is busy has 25 ms to answer: then the lease ends by
// itself.
func givesBack(t *testing.T, l *fenlock.Lock) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil && !errors.Is(err, fenlock.ErrNoQuorum) &&
		!errors.Is(err, fenlock.ErrLost) {
		t.Error(err)
	}
}

func (m *managed) client(t *testing.T) *fenlock.Locker {
	t.Helper()
	return m.clientWith(t, "")
}

// clientWith returns a client with parameters of its URL.
func (m *managed) clientWith(t *testing.T, parameters string) *fenlock.Locker {
	t.Helper()
	short := func(c *fenlock.Config) { c.TTL = managedTTL }
	return client(t, managedMaxTTL, short, "valkey://"+m.address.Addr(0)+parameters)
}

// hasReplicated waits until the replica knows that a token was promised.
func (m *managed) hasReplicated(t *testing.T, token fence.Token) {
	t.Helper()
	eventually(t, func() error {
		if !strings.Contains(m.replica.Do("HVALS", registersKey), fmt.Sprint(token)) {
			return errors.New("the replica is behind")
		}
		return nil
	})
}

// promote ends the primary and moves the address to the replica. It returns a time before a client
// can have reached that.
func (m *managed) promote() time.Time {
	m.primary.Kill()
	m.replica.Do("REPLICAOF", "NO", "ONE")
	before := time.Now()
	m.address.Retarget(m.replica.Addr())
	return before
}

// isTold waits until a holder is told that its lock is lost.
func isTold(t *testing.T, held *fenlock.Lock) {
	t.Helper()
	select {
	case <-held.Context().Done():
	case <-time.After(3 * time.Minute):
		t.Fatal("the holder was not told")
	}
	if cause := context.Cause(held.Context()); !errors.Is(cause, fenlock.ErrLost) {
		t.Errorf("the holder was told %v; want ErrLost", cause)
	}
	if err := held.Extend(t.Context()); !errors.Is(err, fenlock.ErrLost) {
		t.Errorf("the old holder extends: %v; want ErrLost", err)
	}
}

// On a promotion the holder is told, the node is out for the longest lease, and then it
// goes on, with a larger token; also where the replica had never heard of the lock.
func TestPromotionBehindOneAddress(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, c := range []struct {
			name       string
			behind     bool
			parameters string
		}{{"replica in step", false, ""}, {"replica in step, off", false, "?witness=off"},
			{"replica behind", true, "?witness=off"}} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				m := manage(t, kind)
				holder, other := m.clientWith(t, c.parameters), m.clientWith(t, c.parameters)
				if c.behind {
					m.replication.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
				}
				held := takes(t, holder, "orders/42")
				if !c.behind {
					m.hasReplicated(t, held.Token())
				} else if m.replica.Do("EXISTS", "fenlock:orders/42") != "0" {
					t.Fatal("the replica is in step: this tests nothing")
				}

				before := m.promote()
				var lock *fenlock.Lock
				eventually(t, func() (err error) {
					lock, err = other.TryAcquire(t.Context(), "orders/42")
					if err != nil && !errors.Is(err, fenlock.ErrNoQuorum) {
						t.Fatalf("while the node is out: %v; want ErrNoQuorum", err)
					}
					return err
				})
				comesAfter(t, lock, held, before)
				// The clients that were there go on without any help.
				again := takes(t, holder, "orders/42")
				if again.Token() <= lock.Token() {
					t.Errorf("token %d after %d", again.Token(), lock.Token())
				}
				givesBack(t, again)
			})
		}
	})
}

// comesAfter fails unless a lock was taken in time after the one that was held on a
// server which was replaced at before. That one has ended and was told so, and no
// lease can be unknown to the new server. It gives the lock back.
func comesAfter(t *testing.T, lock, held *fenlock.Lock, before time.Time) {
	t.Helper()
	if left := held.Remaining(); left > 0 {
		t.Errorf("two hold at once: the old one for another %v", left)
	}
	if out := time.Since(before); out < managedMaxTTL {
		t.Errorf("taken %v after: leases of %v may be unknown to the new server", out, managedMaxTTL)
	}
	isTold(t, held)
	if lock.Token() <= held.Token() {
		t.Errorf("token %d after %d", lock.Token(), held.Token())
	}
	givesBack(t, lock)
}

// A planned change of roles: for a while the address leads to the old primary, which
// is a replica already. It grants nothing, and says why.
func TestAddressOfAPrimaryThatBecameAReplica(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		m := manage(t, kind)
		l := m.client(t)
		held := takes(t, l, "orders/42")
		m.hasReplicated(t, held.Token())
		m.replica.Do("REPLICAOF", "NO", "ONE")
		host, port, _ := strings.Cut(m.replica.Addr(), ":")
		m.primary.Do("REPLICAOF", host, port)
		isTold(t, held)
		// The connection is made anew, which may take longer than a request.
		eventually(t, func() error {
			_, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil {
				t.Fatal("a replica has granted a lock")
			}
			if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "replica") {
				return fmt.Errorf("from a replica: %w; want ErrMisconfigured, and that it is a replica", err)
			}
			return nil
		})
		m.address.Retarget(m.replica.Addr())
		eventually(t, func() error {
			again, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil && again.Token() <= held.Token() {
				t.Errorf("token %d after %d", again.Token(), held.Token())
			}
			return err
		})
	})
}

// The same, with a name that leads to the new primary already, and connections to the old primary
// that are not cut. A client makes a new connection as soon as it finds a replica at the other end.
func TestConnectionToAPrimaryThatBecameAReplica(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		m := manage(t, kind)
		var target atomic.Pointer[testserver.Server]
		target.Store(m.primary)
		n, err := valkeynode.New(valkey.ClientOption{
			InitAddress: []string{"primary.invalid:6379"},
			DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return d.DialContext(ctx, "tcp", target.Load().Addr())
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		l, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, TTL: managedTTL, MaxTTL: managedMaxTTL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		// The record has the members of other clients, which is not what this is about.
		m.primary.Do("HDEL", registersKey, "members")
		held := takes(t, l, "orders/42")
		m.hasReplicated(t, held.Token())
		m.replica.Do("REPLICAOF", "NO", "ONE")
		target.Store(m.replica)
		host, port, _ := strings.Cut(m.replica.Addr(), ":")
		m.primary.Do("REPLICAOF", host, port)
		isTold(t, held)
		eventually(t, func() error {
			again, err := l.TryAcquire(t.Context(), "orders/42")
			if err == nil && again.Token() <= held.Token() {
				t.Errorf("token %d after %d", again.Token(), held.Token())
			}
			return err
		})
	})
}

// What services deny or hide of a server's commands, and what becomes of a node then. All works but
// one thing: that a server is durable is not believed; or it is refused with the word for what is
// missing.
func TestServicesThatDenyCommands(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		for _, denied := range []string{"CONFIG", "CLIENT", "ACL", "CLUSTER", "DEBUG", "MONITOR", "REPLICAOF", "SHUTDOWN",
			"SAVE", "BGSAVE", "MIGRATE", "KEYS", "FLUSHALL"} {
			s := testserver.Start(t, kind, "rename-command "+denied+` ""`)
			s.MarkAdmitted("fenlock:", managedMaxTTL)
			l := client(t, managedMaxTTL, nil, s.URL())
			lock := takes(t, l, "orders")
			if err := lock.Release(bounded(t)); err != nil {
				t.Errorf("without %s: %v", denied, err)
			}
			// It is admitted again after a restart, too, which asks the most.
			if denied == "CONFIG" || denied == "CLIENT" {
				s.Kill()
				s.Restart()
				eventually(t, func() error {
					again, err := l.TryAcquire(t.Context(), "orders")
					if err == nil && again.Token() <= lock.Token() {
						t.Errorf("token %d after %d", again.Token(), lock.Token())
					}
					return err
				})
			}
			s.Kill()
		}
		for _, needed := range []string{"INFO", "EVAL", "HSETNX", "PUBSUB", "SCRIPT", "EVALSHA", "SET"} {
			s := testserver.Start(t, kind, "rename-command "+needed+` ""`)
			n := joined(t, s.URL(), managedMaxTTL)
			eventually(t, func() error {
				_, err := n.Do(bounded(t), as(node.Acquire, request("orders", "one")))
				if needed == "PUBSUB" { // it is asked for when a client waits
					e, examined := n.Examine(bounded(t), node.Look{})
					if err = examined; err == nil {
						t.Fatalf("without %s: %+v", needed, e)
					}
				}
				if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), "does not have a command") {
					return fmt.Errorf("without %s: %v", needed, err)
				}
				return nil
			})
			s.Kill()
		}
	})
}
