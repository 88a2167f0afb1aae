package tests

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
)

// The claims and objections of the published material on Redlock, a test each:
//
//	[R] "Distributed Locks with Redis", the page on redis.io
//	[K] Martin Kleppmann, "How to do distributed locking"
//	[A] Salvatore Sanfilippo, "Is Redlock safe?"

// [R] Safety property: "Mutual exclusion. At any given moment, only one client
// can hold a lock."
func TestMutualExclusion(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		var inside, entries atomic.Int32
		var last fence.Token
		var wait sync.WaitGroup
		for range 4 {
			l := newLocker(t, urls(servers))
			wait.Go(func() {
				for range 10 {
					err := l.Do(bounded(t), "orders/42", func(_ context.Context, token fence.Token) error {
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d inside at once", n)
						}
						if token <= last {
							t.Errorf("token %v after %v", token, last)
						}
						last = token // no mutex: the race detector watches the lock itself
						entries.Add(1)
						inside.Add(-1)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if entries.Load() != 40 {
			t.Errorf("%d entries, want 40", entries.Load())
		}
	})
}

// [R] Liveness property A: "Deadlock free. Eventually it is always possible to
// acquire a lock, even if the client that locked a resource crashes".
func TestClientCrash(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		client := startClient(t, urls(servers), "orders/42")
		token := client.token()
		client.signal(syscall.SIGKILL)
		if lock := acquire(t, newLocker(t, urls(servers)), "orders/42"); lock.Token() <= token {
			t.Errorf("token %v after %v", lock.Token(), token)
		}
	})
}

// [R] Liveness property B: "Fault tolerance. As long as the majority of Redis
// nodes are up, clients are able to acquire and release locks." And no longer.
func TestTwoOfFiveAreDown(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "orders/42"))
		servers[0].Kill()
		servers[3].Kill()
		release(t, acquire(t, l, "orders/42"))
		servers[4].Kill()
		_, err := l.TryAcquire(bounded(t), "orders/42")
		var q *fenlock.QuorumError
		if !errors.As(err, &q) || errors.Is(err, fenlock.ErrHeld) || len(q.Errors) < 3 {
			t.Errorf("with three down: %v", err)
		}
	})
}

// [R] "the client should ... try to acquire the lock in all the N instances"
// with a small timeout, so that it is not "blocked for a long time trying to talk
// with a Redis node which is down": one that hangs costs no majority its lock.
func TestHungMinority(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "orders/42"))
		servers[1].Pause()
		servers[2].Pause()
		lock := acquire(t, l, "orders/42")
		if err := lock.Extend(bounded(t)); err != nil {
			t.Errorf("extend: %v", err)
		}
		if err := lock.Release(bounded(t)); err != nil {
			t.Errorf("release: %v", err)
		}
		// The acquire is executed late, when the lock is long released. Its lease must go.
		servers[1].Resume()
		servers[2].Resume()
		eventually(t, func() error {
			if n := leases(servers, "orders/42"); n != 0 {
				return fmt.Errorf("%d leases are left", n)
			}
			return nil
		})
	})
}

// [R] "If the lock was acquired, its validity time is considered to be the
// initial validity time minus the time elapsed".
func TestValidityIsShortenedByTheTimeSpent(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 3)
		slow := []*proxy{newProxy(t, servers[0]), newProxy(t, servers[1])}
		l := newLocker(t, []string{slow[0].url(), slow[1].url(), servers[2].URL()})
		release(t, acquire(t, l, "warm up"))
		const delay = 150 * time.Millisecond
		for _, p := range slow {
			p.delayReplies(delay)
		}
		lock := acquire(t, l, "orders/42")
		// A lower bound on the time spent is an upper one on the validity.
		if left, most := lock.Remaining(), groupTTL-delay-groupTTL/100-2*time.Millisecond; left > most {
			t.Errorf("%v of validity left of %v, although the round took %v: want at most %v", left, groupTTL, delay, most)
		}
		release(t, lock)
	})
}

// [R] "it is important to avoid removing a lock that was created by another
// client": a release after the expiry does not.
func TestReleaseAfterExpiry(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		client := startClient(t, urls(servers), "orders/42")
		client.token()
		client.stop() // longer than its lease
		lock := acquire(t, newLocker(t, urls(servers)), "orders/42")
		client.signal(syscall.SIGCONT)
		client.release()
		if got := client.line(); !strings.Contains(got, "lost") {
			t.Errorf("the late client's release: %q; want it to be told that the lock was lost", got)
		}
		if err := lock.Extend(bounded(t)); err != nil {
			t.Errorf("the new holder's lock: %v", err)
		}
		if n := leases(servers, "orders/42"); n != 5 {
			t.Errorf("%d leases of the new holder are left, want 5", n)
		}
		release(t, lock)
	})
}

// [R] "it is highly recommended for clients that fail to acquire the majority of
// locks, to release the (partially) acquired locks ASAP".
func TestPartialLocksAreReleased(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "warm up"))
		for _, s := range servers[:3] { // another Redlock client's, without an end
			s.Do("SET", "fenlock:orders/42", "somebody")
		}
		if _, err := l.TryAcquire(bounded(t), "orders/42"); !errors.Is(err, fenlock.ErrHeld) {
			t.Fatalf("with three of five leased to another: %v", err)
		}
		eventually(t, func() error {
			if n := leases(servers[3:], "orders/42"); n != 0 {
				return fmt.Errorf("%d leases are left on the other two", n)
			}
			return nil
		})
	})
}

// [R] "Performance, crash recovery and fsync": a node without persistence that
// restarts must be out for longer than the longest lease, or three of five could
// be locked twice: A and B hold the lease's majority with C, C restarts empty,
// and C, D and E would grant it again.
func TestCrashWithoutPersistence(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		l, other := newLocker(t, urls(servers)), newLocker(t, urls(servers))
		// The lease is on A, B and C only.
		release(t, acquire(t, l, "warm up"))
		servers[3].Pause()
		servers[4].Pause()
		lock := acquire(t, l, "orders/42")
		servers[2].Kill()
		servers[2].Restart()
		servers[3].Kill()
		servers[4].Kill()
		// D and E forget their promise to nobody: they had given none.
		servers[3].Restart()
		servers[4].Restart()
		for _, s := range servers[3:] {
			markAdmitted(t, s, "fenlock:")
		}
		next, err := other.TryAcquire(bounded(t), "orders/42")
		if left := lock.Remaining(); err == nil && left > 0 {
			t.Fatalf("locked twice: tokens %v, with %v left, and %v", lock.Token(), left, next.Token())
		}
		if err != nil {
			next = acquire(t, other, "orders/42")
		}
		if next.Token() <= lock.Token() {
			t.Errorf("token %v after %v", next.Token(), lock.Token())
		}
	})
}

// [R] "delayed restarts": the node is back after the longest lease, has its
// registers rebuilt from the others, and takes part in locks that are held.
func TestDelayedRestart(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		lock := acquire(t, newLocker(t, urls(servers)), "orders/42")
		servers[2].Kill()
		servers[2].Restart()
		eventually(t, func() error {
			if lock.Context().Err() != nil {
				t.Fatal(context.Cause(lock.Context()))
			}
			if err := lock.Extend(bounded(t)); err != nil {
				return err
			}
			if n := leases(servers[2:3], "orders/42"); n != 1 {
				return errors.New("the node does not have the lease again")
			}
			return nil
		})
		register := servers[2].Do("HGET", "fenlock-registers:fenlock:", fmt.Sprint(fenlock.Stripe("orders/42")))
		if token, err := fence.Parse(register); err != nil || token < lock.Token() {
			t.Errorf("the rebuilt register is %s, the token %v", register, lock.Token())
		}
		release(t, lock)
	})
}

// [R] "fsync=always" instead: the node votes at once, and knows its leases.
func TestCrashWithFsyncAlways(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := testserver.Group(t, kind, 3, "appendonly yes", "appendfsync always")
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "orders/42")) // a real admission, which records the fsync
		lock := acquire(t, l, "orders/42")
		for _, s := range servers[:2] { // a majority
			s.Kill()
			s.Restart()
		}
		// Nothing was admitted by waiting: the lock would have been lost by then.
		if err := lock.Extend(bounded(t)); err != nil && !errors.Is(err, fenlock.ErrLost) {
			t.Errorf("extend: %v", err)
		}
		token := lock.Token()
		lock.Release(bounded(t))
		if lock = acquire(t, l, "orders/42"); lock.Token() <= token {
			t.Errorf("token %v after %v", lock.Token(), token)
		}
	})
}

// [R] "Making the algorithm more reliable: Extending the lock": only if the
// majority is reached, and "the number of lock reacquisition attempts should be
// limited, otherwise one of the liveness properties is violated".
func TestExtension(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		t.Run("by majority", func(t *testing.T) {
			lock := acquire(t, newLocker(t, urls(servers)), "majority")
			for _, s := range servers[:2] { // vacant: repaired
				s.Do("DEL", "fenlock:majority")
			}
			if err := lock.Extend(bounded(t)); err != nil {
				t.Fatalf("extend: %v", err)
			}
			for _, s := range servers[:3] {
				s.Do("SET", "fenlock:majority", "somebody else")
			}
			if err := lock.Extend(bounded(t)); !errors.Is(err, fenlock.ErrLost) {
				t.Errorf("extend with three of five gone: %v; want ErrLost", err)
			}
			<-lock.Context().Done()
			if cause := context.Cause(lock.Context()); !errors.Is(cause, fenlock.ErrLost) {
				t.Errorf("the context's cause: %v", cause)
			}
		})
		t.Run("bounded", func(t *testing.T) {
			lock := acquire(t, newLocker(t, urls(servers), func(c *fenlock.Config) { c.MaxHold = 2 * groupTTL }), "forgotten")
			next := acquire(t, newLocker(t, urls(servers)), "forgotten")
			if cause := context.Cause(lock.Context()); !errors.Is(cause, fenlock.ErrMaxHold) {
				t.Errorf("the forgotten lock ended with %v; want ErrMaxHold", cause)
			}
			release(t, next)
		})
	})
}

// [K] "Process pauses": the client stops for longer than its lease between the
// request and the reply, and goes on. It must not believe that it has the lock.
// [A] agrees that the time is to be checked after the replies.
func TestRepliesAfterTheLease(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 3)
		var through []string
		var proxies []*proxy
		for _, s := range servers {
			p := newProxy(t, s)
			proxies, through = append(proxies, p), append(through, p.url())
		}
		l := newLocker(t, through)
		release(t, acquire(t, l, "warm up"))
		for _, p := range proxies {
			p.delayReplies(groupTTL + groupTTL/2)
		}
		_, err := l.TryAcquire(bounded(t), "orders/42")
		if !errors.Is(err, fenlock.ErrNoQuorum) || errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("replies after the lease: %v", err)
		}
		for _, p := range proxies {
			p.delayReplies(0)
		}
		release(t, acquire(t, newLocker(t, urls(servers)), "orders/42"))
	})
}

// [K] The same with a real process that is stopped while its request is under way.
func TestProcessPauseDuringAcquire(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 3)
		var through []string
		var proxies []*proxy
		for _, s := range servers {
			p := newProxy(t, s)
			proxies, through = append(proxies, p), append(through, p.url())
		}
		client := startClient(t, through, "warm up", "then", "orders/42")
		client.token()
		client.release()
		if got := client.line(); got != "released" {
			t.Fatalf("release: %q", got)
		}
		var letGo []func()
		for _, p := range proxies {
			letGo = append(letGo, p.holdReplies())
		}
		client.acquireAgain()
		// Requests executed, replies under way: by a majority, since the third may
		// not even be connected yet.
		eventually(t, func() error {
			executed := 0
			for _, s := range servers {
				if s.Do("HGET", "fenlock-registers:fenlock:", fmt.Sprint(fenlock.Stripe("orders/42"))) != "(nil)" {
					executed++
				}
			}
			if executed < 2 {
				return fmt.Errorf("executed by %d of 3", executed)
			}
			return nil
		})
		client.stop()
		for _, f := range letGo {
			f()
		}
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
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 3)
		proxies := []*proxy{newProxy(t, servers[0]), newProxy(t, servers[1])}
		l := newLocker(t, []string{proxies[0].url(), proxies[1].url(), servers[2].URL()})
		release(t, acquire(t, l, "warm up"))
		for _, p := range proxies {
			p.loseReplies(true)
		}
		if _, err := l.TryAcquire(bounded(t), "orders/42"); !errors.Is(err, fenlock.ErrNoQuorum) || errors.Is(err, fenlock.ErrHeld) {
			t.Errorf("with two of three replies lost: %v", err)
		}
		eventually(t, func() error {
			if n := leases(servers, "orders/42"); n != 0 {
				return fmt.Errorf("%d leases are left", n)
			}
			return nil
		})
		for _, p := range proxies {
			p.loseReplies(false)
			p.cut()
		}
		release(t, acquire(t, l, "orders/42"))
	})
}

// [K] "Making the lock safe with fencing": client 1 has token 33, is paused, the
// lease expires, client 2 writes with 34, and then client 1's write arrives: also if
// the pause was in the network, where no check of the client's can help.
func TestDelayedPacketToTheStorage(t *testing.T) {
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
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
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		servers := group(t, kind, 5)
		l := newLocker(t, urls(servers))
		release(t, acquire(t, l, "warm up"))
		servers[3].Pause()
		servers[4].Pause()
		first := acquire(t, l, "orders/42") // on A, B and C
		servers[3].Kill()
		servers[4].Kill()
		servers[3].Restart()
		servers[4].Restart()
		for _, s := range servers[3:] { // they had granted nothing
			markAdmitted(t, s, "fenlock:")
		}
		var second *fenlock.Lock
		other := newLocker(t, urls(servers))
		eventually(t, func() (err error) {
			servers[2].Do("DEL", "fenlock:orders/42") // the clock of C jumps
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
		release(t, lock)
	}
	grow()
	// So far ahead of the clock that no proposal can hide a register that was lost.
	for _, s := range servers {
		s.Do("HSET", "fenlock-registers:fenlock:", fmt.Sprint(fenlock.Stripe("orders/42")), fmt.Sprint(uint64(1<<52)+1))
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
			for _, s := range pair {
				if id := s.Do("HGET", "fenlock-registers:fenlock:", "admitted"); len(id) != 40 {
					return fmt.Errorf("%s is not admitted", s.Addr())
				}
			}
			return nil
		})
	}
	if last <= 1<<52 {
		t.Errorf("token %v: not above the registers that were set", last)
	}
}

// client is a process of its own that holds a lock, so that it can be stopped
// and killed.
type client struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  interface{ Write([]byte) (int, error) }
	output *bufio.Scanner
}

const clientVariable = "FENLOCK_TEST_CLIENT"

// startClient runs this test binary as a client. It acquires the first name,
// prints "token N", waits for a line, releases, prints "released" or the error, and,
// if "then" and a second name are given, waits for a line and tries to acquire that.
func startClient(t *testing.T, urls []string, arguments ...string) *client {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMain$")
	cmd.Env = append(os.Environ(), clientVariable+"="+strings.Join(urls, ","), "FENLOCK_TEST_ARGUMENTS="+strings.Join(arguments, ","))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &client{t: t, cmd: cmd, input: input, output: bufio.NewScanner(output)}
}

func (c *client) line() string {
	c.t.Helper()
	if !c.output.Scan() {
		c.t.Fatalf("the client ended: %v", c.output.Err())
	}
	return c.output.Text()
}

func (c *client) token() fence.Token {
	c.t.Helper()
	text := c.line()
	token, err := fence.Parse(strings.TrimPrefix(text, "token "))
	if err != nil {
		c.t.Fatalf("%q: %v", text, err)
	}
	return token
}

func (c *client) release() { c.input.Write([]byte("release\n")) }

func (c *client) acquireAgain() { c.input.Write([]byte("acquire\n")) }

// stop stops the process and waits until it has: a signal is delivered later
// than it is sent.
func (c *client) stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	eventually(c.t, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		if err != nil { // not Linux
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		if !strings.Contains(string(stat), ") T ") {
			return errors.New("still running")
		}
		return nil
	})
}

func (c *client) signal(sig syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		c.t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	if nodes := os.Getenv(clientVariable); nodes != "" {
		if err := runClient(strings.Split(nodes, ","), strings.Split(os.Getenv("FENLOCK_TEST_ARGUMENTS"), ",")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	// Most tests wait, so that more of them can run at once than there are cores.
	flag.Parse()
	flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}
