package tests

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
)

// [K] "Process pauses": the client stops for longer than its lease between the
// request and the reply, and goes on. It must not believe that it has the lock.
// [A] agrees that the time is to be checked after the replies.
func TestRepliesAfterTheLease(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		networks, through := through(t, servers...)
		l := newLocker(t, through)
		release(t, acquire(t, l, "warm up"))
		lift := networks.impose(proxy.Rule{From: proxy.Effect{Delay: groupTTL + groupTTL/2}})
		_, err := l.TryAcquire(bounded(t), "orders/42")
		if !errors.Is(err, fenlock.ErrNoQuorum) || errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("replies after the lease: %v", err)
		}
		lift()
		release(t, acquire(t, newLocker(t, urls(servers)), "orders/42"))
	})
}

// [K] The same with a real process that is stopped while its request is under way.
func TestProcessPauseDuringAcquire(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		networks, through := through(t, servers...)
		client := startClient(t, through, "warm up", "then", "orders/42")
		client.token()
		client.goOn()
		if got := client.line(); got != "released" {
			t.Fatalf("release: %q", got)
		}
		letGo := networks.impose(proxy.Rule{From: proxy.Effect{Hold: true}})
		client.goOn()
		// Requests executed, replies under way: by a majority, since the third may
		// not even be connected yet.
		eventually(t, func() error {
			executed := 0
			for _, s := range servers {
				if s.Do("HGET", "fenlock-registers:fenlock:", fmt.Sprint(node.Stripe("orders/42"))) != "(nil)" {
					executed++
				}
			}
			if executed < 2 {
				return fmt.Errorf("executed by %d of 3", executed)
			}
			return nil
		})
		client.stop()
		letGo()
		lock := acquire(t, newLocker(t, urls(servers)), "orders/42")
		client.signal(syscall.SIGCONT)
		if got := client.line(); strings.HasPrefix(got, "token") {
			t.Errorf("after a pause beyond the lease: %q, while %v is held", got, lock.Token())
		}
		if err := lock.Extend(bounded(t)); err != nil {
			t.Errorf("the new holder's lock: %v", err)
		}
	})
}

// A reply that is lost leaves it open whether the lease is there: it counts for
// nothing, and is released too.
func TestLostReplies(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, servers []*testserver.Server) {
		networks, through := through(t, servers[:2]...)
		l := newLocker(t, append(through, servers[2].URL()))
		release(t, acquire(t, l, "warm up"))
		lift := networks.impose(proxy.Rule{From: proxy.Effect{Lose: true}})
		if _, err := l.TryAcquire(bounded(t), "orders/42"); !errors.Is(err, fenlock.ErrNoQuorum) ||
			errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("with two of three replies lost: %v", err)
		}
		noLeases(t, servers, "orders/42")
		lift()
		release(t, acquire(t, l, "orders/42"))
	})
}

// [K] "Making the lock safe with fencing": client 1 has token 33, is paused, and the lease expires.
// Client 2 writes with 34, and then client 1's write arrives. The pause may be in the network,
// where no check of the client's can help.
func TestDelayedPacketToTheStorage(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		var storage fence.Guard
		written := ""
		write := func(token fence.Token, text string) error {
			return storage.Do(bounded(t), "orders/42", token, func() error { written = text; return nil })
		}
		client := startClient(t, urls(servers), "orders/42")
		first := client.token()
		client.stop()
		second := acquire(t, newLocker(t, urls(servers)), "orders/42")
		if err := write(second.Token(), "second"); err != nil {
			t.Fatal(err)
		}
		if err := write(first, "first"); !errors.Is(err, fence.ErrStale) || written != "second" {
			t.Errorf("the delayed write: %v, written %q", err, written)
		}
	})
}

// [K] "What if ... the clock on node C jumps forward, causing the lock to
// expire": a second client may then get a majority. The tokens tell the two apart,
// and the first one learns of it instead of extending.
func TestClockJump(t *testing.T) {
	onGroups(t, 5, func(t *testing.T, servers []*testserver.Server) {
		l := newLocker(t, urls(servers))
		first := acquireOnThree(t, l, servers)
		var second *fenlock.Lock
		other := newLocker(t, urls(servers))
		eventually(t, func() (err error) {
			servers[2].Do("DEL", "fenlock:orders/42") // the clock of C jumps
			for _, s := range servers[3:] {
				s.Do("DEL", "fenlock:orders/42") // if the first one got that meanwhile: it heals
			}
			second, err = other.TryAcquire(bounded(t), "orders/42")
			if errors.Is(err, fenlock.ErrLost) || first.Context().Err() != nil {
				return nil
			}
			return err
		})
		if second == nil {
			second = acquire(t, other, "orders/42")
		}
		if second.Token() <= first.Token() {
			t.Errorf("tokens %v, then %v", first.Token(), second.Token())
		}
		if err := first.Extend(bounded(t)); err == nil {
			t.Error("the first holder extended a lock that somebody else has")
		}
	})
}

// Tokens go on growing while any minority of nodes is lost, however often:
// every node loses its memory several times over.
func TestTokensGrowWhileMinoritiesAreLost(t *testing.T) {
	servers := group(t, testserver.Kinds(t)[0], 5)
	l := newLocker(t, urls(servers))
	var last fence.Token
	grow := func() {
		t.Helper()
		lock := acquire(t, l, "orders/42")
		if lock.Token() <= last {
			t.Fatalf("token %v after %v", lock.Token(), last)
		}
		last = lock.Token()
		// While two are down the others must all answer in time, and a busy one may not: the lease ends.
		if err := lock.Release(bounded(t)); err != nil && !errors.Is(err, fenlock.ErrNoQuorum) {
			t.Fatal(err)
		}
	}
	grow()
	// So far ahead of the clock that no proposal can hide a register that was lost.
	for _, s := range servers {
		s.Do("HSET", "fenlock-registers:fenlock:", fmt.Sprint(node.Stripe("orders/42")), fmt.Sprint(uint64(1<<52)+1))
	}
	l = newLocker(t, urls(servers))
	for i := range 5 {
		pair := []*testserver.Server{servers[i], servers[(i+2)%5]}
		for _, s := range pair {
			s.Kill()
		}
		grow()
		for _, s := range pair {
			s.Wipe()
			s.Restart()
		}
		l = newLocker(t, urls(servers)) // one that has seen no token
		grow()
		eventually(t, func() error { // both are back, and have their registers
			grow()
			return admitted(pair...)
		})
	}
	if last <= 1<<52 {
		t.Errorf("token %v: not above the registers that were set", last)
	}
}
