//go:build unix

package etcdnode_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A lock is held while the member that leads is killed. Another member is stopped for longer than
// any lease lasts, and goes on. It comes back as a leader of the past, whose leases have all ended.
// The waiter has the lock after the holder, with a larger token.
func TestHeldWhileMembersGo(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	url := "etcd://" + e.Addrs()
	const ttl = 6 * time.Second
	const window = 2 * time.Second // by which etcd leases are longer
	l, other := locker(t, url, ttl), locker(t, url, ttl)
	ctx := within(t, 2*time.Minute)
	held, err := l.Acquire(ctx, "held")
	if err != nil {
		t.Fatal(err)
	}
	type got struct {
		token uint64
		err   error
	}
	waiting := make(chan got, 1)
	go func() {
		next, err := other.Acquire(ctx, "held")
		if err != nil {
			waiting <- got{err: err}
			return
		}
		waiting <- got{uint64(next.Token()), next.Release(ctx)}
	}()
	still := func(after string) {
		t.Helper()
		eventually(t, func() error { return held.Extend(ctx) })
		select {
		case g := <-waiting:
			t.Fatalf("after %s: somebody else has the lock: %+v", after, g)
		default:
		}
	}
	still("the beginning")

	m := leader(t, e)
	m.Kill()
	still("a member was killed")
	e.Start(m)

	m = leader(t, e)
	m.Pause()
	still("the leader was stopped")
	time.Sleep(ttl + window + time.Second)
	still("its leases have ended")
	m.Resume()
	time.Sleep(time.Second)
	still("it went on")

	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	g := <-waiting
	if g.err != nil || g.token <= uint64(held.Token()) {
		t.Errorf("the next has the token %d after %d, %v", g.token, held.Token(), g.err)
	}
}

// A member that hangs costs the requests that it has, and later ones nothing.
func TestHangingMember(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	n := open(t, "etcd://"+e.Addrs())
	await(t, n)
	must(t, n, request(node.Acquire, "a", "1", time.Minute), node.Granted)
	// The connection is to the leader by now, or to another one: both hang in turn.
	for i, m := range e.Members {
		m.Pause()
		ctx := within(t, 300*time.Millisecond)
		if _, err := n.Do(ctx, request(node.Acquire, fmt.Sprint("hang", i), "1", time.Minute)); err != nil &&
			ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("while member %d hangs: %v", i, err)
		}
		eventually(t, func() error {
			_, err := n.Do(within(t, time.Second),
				request(node.Acquire, fmt.Sprint("b", i, time.Now().UnixNano()), "1", time.Second))
			return err
		})
		m.Resume()
	}
}

// With fewer than a majority nothing is granted and nothing is extended, and each request ends with
// its context. All goes on when the others are back.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	n := open(t, "etcd://"+e.Addrs())
	await(t, n)
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, n, held, node.Granted)
	for _, m := range e.Members[:2] {
		m.Pause()
	}
	for _, r := range []node.Request{request(node.Acquire, "b", "2", time.Minute), as(node.Extend, held),
		as(node.Confirm, held)} {
		if a, err := n.Do(within(t, time.Second), r); err == nil || !strings.Contains(err.Error(), e.Members[0].Addr()) {
			t.Errorf("%v without a majority: %+v, %v", r.Op, a, err)
		}
	}
	for _, m := range e.Members[:2] {
		m.Resume()
	}
	eventually(t, func() error {
		a, err := n.Do(within(t, 2*time.Second), as(node.Extend, held))
		if err == nil && a.Status != node.Granted {
			t.Fatalf("extended: %+v", a)
		}
		return err
	})
}

// A cluster keeps its memory over a restart of all members. A holder still has its lease, registers
// do not go back, and no client has to wait.
func TestRestartOfAll(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 3)
	n, other := open(t, "etcd://"+e.Addrs()), open(t, "etcd://"+e.Addrs())
	await(t, n)
	held := request(node.Acquire, "a", "1", time.Minute)
	granted := must(t, n, held, node.Granted)
	for _, m := range e.Members {
		m.Kill()
	}
	e.Start(e.Members...)
	eventually(t, func() error {
		a, err := other.Do(within(t, 2*time.Second), request(node.Acquire, "a", "2", time.Minute))
		if err == nil && a.Status != node.Held {
			t.Fatalf("after the restart: %+v", a)
		}
		return err
	})
	if a := must(t, n, as(node.Extend, held), node.Granted); a.Register != granted.Register {
		t.Errorf("the origin is %d; want %d", a.Register, granted.Register)
	}
	must(t, n, as(node.Release, held), node.Granted)
	low := request(node.Acquire, "a", "2", time.Minute)
	low.Token = 1
	if a := must(t, other, low, node.Granted); a.Register != granted.Register+1 {
		t.Errorf("granted %d after %d", a.Register, granted.Register)
	}
}

// The reply to an acquire is lost. No client knows that the lease is there. So its own process ends
// it after the TTL, although other locks keep the shared etcd lease alive.
func TestLostReply(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	p := proxy.New(e.Members[0].Addr(), nil)
	defer p.Close()
	n := open(t, "etcd://"+p.Addr(0))
	looker := open(t, "etcd://"+e.Addrs())
	await(t, n)
	const ttl = 3 * time.Second
	busy := request(node.Acquire, "busy", "1", ttl)
	must(t, n, busy, node.Granted)
	// A register that is there: the first acquire of a stripe reads before it writes.
	first := request(node.Acquire, "lost", "0", ttl)
	must(t, n, first, node.Granted)
	must(t, n, as(node.Release, first), node.Granted)

	lift := p.Impose(proxy.Rule{From: proxy.Effect{Lose: true}})
	lost := request(node.Acquire, "lost", "2", ttl)
	if a, err := n.Do(within(t, 500*time.Millisecond), lost); err == nil || errors.Is(err, node.ErrNotSent) {
		t.Fatalf("without a reply: %+v, %v; want an error that says nothing", a, err)
	}
	if l, err := looker.Inspect(t.Context(), "lost"); err != nil || !l.Leased {
		t.Fatalf("the acquire was not carried out: %+v, %v", l, err)
	}
	lift()
	free := false
	eventually(t, func() error {
		if a, err := n.Do(within(t, time.Second), as(node.Extend, busy)); err != nil || a.Status != node.Granted {
			return fmt.Errorf("%+v, %w", a, err)
		}
		l, err := looker.Inspect(t.Context(), "lost")
		if free = err == nil && !l.Leased; !free {
			return fmt.Errorf("%+v, %w", l, err)
		}
		return nil
	})
	if l, err := looker.Inspect(t.Context(), "busy"); err != nil || !l.Leased {
		t.Errorf("the other lock: %+v, %v", l, err)
	}
}

// A waiter's watch is cut, and what it missed is compacted away. It has the lock all the
// same, and is told that it may have missed something.
func TestCompaction(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	p := proxy.New(e.Members[0].Addr(), nil)
	defer p.Close()
	n, holder := open(t, "etcd://"+p.Addr(0)), open(t, "etcd://"+e.Addrs())
	await(t, n)
	told := make(chan string, 100)
	if err := n.Listen(within(t, 10*time.Second), client1, func(w string) { told <- w }); err != nil {
		t.Fatal(err)
	}
	held := request(node.Acquire, "a", "1", time.Minute)
	must(t, holder, held, node.Granted)
	waiting := request(node.Acquire, "a", "2", time.Minute)
	waiting.Place = node.Place{Waiter: client1 + ":1", Stamp: 1000}
	must(t, n, waiting, node.Held)

	lift := p.Impose(proxy.Rule{Cut: true})
	must(t, holder, as(node.Release, held), node.Granted)
	c := raw(t, e)
	a, err := c.Put(t.Context(), "x", "y")
	if err == nil {
		_, err = c.Compact(t.Context(), a.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		t.Fatal(err)
	}
	lift()
	select {
	case w := <-told:
		if w != "" {
			t.Errorf("told %q, which was compacted away", w)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("the waiter is told nothing")
	}
	eventually(t, func() error {
		a, err := n.Do(within(t, time.Second), waiting)
		if err == nil && a.Status != node.Granted {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
}

// All of a process ends: its locks are free a second or two after their TTL, and its
// waiters are passed over.
func TestProcessThatIsKilled(t *testing.T) {
	url := fresh()
	n := open(t, url)
	await(t, n)
	must(t, n, request(node.Acquire, "behind", "2", time.Minute), node.Granted) // before it could
	kill := child(t, url)
	eventually(t, func() error { // it holds one, and waits for the other
		l, err := n.Inspect(t.Context(), "child")
		if err != nil || !l.Leased {
			return fmt.Errorf("%+v, %w", l, err)
		}
		if _, all, err := n.Waiting(t.Context(), "behind", 1); err != nil || all != 1 {
			return fmt.Errorf("%d wait, %w", all, err)
		}
		return nil
	})
	kill()
	killed := time.Now()
	eventually(t, func() error {
		a, err := n.Do(within(t, time.Second), request(node.Acquire, "child", "3", time.Minute))
		if err == nil && a.Status != node.Granted {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
	t.Logf("the lock of a killed process, with a TTL of 2 s, was free after %v",
		time.Since(killed).Round(time.Millisecond))
	eventually(t, func() error {
		if _, all, err := n.Waiting(t.Context(), "behind", 1); err != nil || all != 0 {
			return fmt.Errorf("%d wait, %w", all, err)
		}
		return nil
	})
	t.Logf("its waiter was gone after %v", time.Since(killed).Round(time.Millisecond))
}

// An operator revokes all etcd leases. What a process locks next is attached to another one.
func TestLeasesAreRevoked(t *testing.T) {
	t.Parallel()
	e := testserver.StartEtcd(t, 1)
	n, c := open(t, "etcd://"+e.Addrs()), raw(t, e)
	await(t, n)
	if err := n.Listen(within(t, 20*time.Second), client1, func(string) {}); err != nil {
		t.Fatal(err)
	}
	must(t, n, request(node.Acquire, "a", "1", time.Minute), node.Granted)
	a, err := c.Leases(t.Context())
	if err != nil || len(a.Leases) < 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, l := range a.Leases {
		if _, err := c.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	must(t, n, request(node.Acquire, "b", "1", time.Minute), node.Granted)
	// A client that was never here before takes for over what is in a session that is gone.
	must(t, open(t, "etcd://"+e.Addrs()), request(node.Acquire, "b", "2", time.Minute), node.Held)
}
