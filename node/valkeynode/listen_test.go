package valkeynode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// subscribe makes a node listen, and returns the events.
func subscribe(t *testing.T, n node.Queuer, digit string) (events chan string, err error) {
	t.Helper()
	events = make(chan string, 1000)
	return events, n.Listen(bounded(t), strings.Repeat(digit, 32), func(waiter string) { events <- waiter })
}

// subscribed is subscribe where nothing is wrong.
func subscribed(t *testing.T, n node.Queuer, digit string) chan string {
	t.Helper()
	events, err := subscribe(t, n, digit)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func next(t *testing.T, events chan string) string {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-bounded(t).Done():
		t.Fatal("no event")
		return ""
	}
}

func TestCutSubscriptionIsRenewed(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, p := queueServer(t, kind, 2)
		a, b := p[0], p[1]
		first := a.hold()
		b.refused(1, 100, 0)
		for range 3 {
			if got := s.Do("CLIENT", "KILL", "TYPE", "pubsub"); got != "2" {
				t.Fatalf("%s connections cut, want 2", got)
			}
			a.notified("")
			b.notified("")
		}
		a.release(first)
		b.notified(b.waiter(1))
		b.granted(1, 100)
		silent(t, a, b)
	})
}

// A server that is down when Listen is called says so at once, and is listened to
// when it is up.
func TestListenToAServerThatIsDown(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		s.Kill()
		n := joined(t, s.URL(), time.Hour)
		events, err := subscribe(t, n, "a")
		if err == nil || !strings.Contains(err.Error(), n.String()) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, want the node's name and a refused connection", err)
		}
		s.Restart()
		if got := next(t, events); got != "" {
			t.Fatalf("event %q, want none missed", got)
		}
		s.Do("PUBLISH", "fenlock-wake:"+strings.Repeat("a", 32), "1")
		if got := next(t, events); got != strings.Repeat("a", 32)+":1" {
			t.Fatalf("event %q", got)
		}
	})
}

// userWithout returns the node of a user who lacks a permission.
func userWithout(t *testing.T, s *testserver.Server, missing string) *valkeynode.Node {
	t.Helper()
	grants := slices.DeleteFunc(permissions(t, valkeynode.DefaultPrefix), func(p string) bool { return p == missing })
	s.Do(append([]string{"ACL", "SETUSER", aclUser, "reset", "on", ">" + aclPassword}, grants...)...)
	return joined(t, strings.Replace(s.URL(), "://", "://"+aclUser+":"+aclPassword+"@", 1), time.Hour)
}

func TestListenWithoutPermission(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		for _, missing := range []string{"+subscribe", "&fenlock-wake:*"} {
			n := userWithout(t, s, missing)
			events, err := subscribe(t, n, "a")
			if !errors.Is(err, fenlock.ErrMisconfigured) || !strings.Contains(err.Error(), missing) ||
				strings.Contains(err.Error(), aclPassword) {
				t.Fatalf("without %s: %v; want ErrMisconfigured that says what to grant", missing, err)
			}
			// Granted later, it is noticed.
			s.Do("ACL", "SETUSER", aclUser, missing)
			if got := next(t, events); got != "" {
				t.Fatalf("event %q, want the one for being late", got)
			}
			n.Close()
		}
	})
}

// A user who must not publish is told so, by the operation that had to.
func TestNotifyWithoutPermission(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, p := queueServer(t, kind, 1)
		first := p[0].hold()
		p[0].refused(1, 100, 0)
		for _, missing := range []string{"+publish", "&fenlock-wake:*"} {
			n := userWithout(t, s, missing)
			if a, err := n.Do(bounded(t), as(node.Release, first)); !errors.Is(err, fenlock.ErrMisconfigured) ||
				!strings.Contains(err.Error(), "channel") || strings.Contains(err.Error(), aclPassword) {
				t.Fatalf("without %s: %+v, %v; want ErrMisconfigured", missing, a, err)
			}
			// Done all the same, but for the notification.
			first = p[0].hold()
			p[0].refused(1, 100, 0)
		}
	})
}

// Lockers that share a node listen each for themselves.
func TestListenersShareANode(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.Start(t, kind)
		n := joined(t, s.URL(), time.Hour)
		subscribed(t, n, "a")
		b := subscribed(t, n, "b")
		s.Do("PUBLISH", "fenlock-wake:"+strings.Repeat("b", 32), "7")
		if got, want := next(t, b), strings.Repeat("b", 32)+":7"; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

// What is no number is not passed on, whichever client publishes it. And who listens does so
// whatever is flushed.
func TestForeignMessagesAreNoNotifications(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, p := queueServer(t, kind, 1)
		for _, payload := range []string{"", "x", "-1", "1 ", "1:2", strings.Repeat("1", 20), "\x00"} {
			if got := s.Do("PUBLISH", "fenlock-wake:"+p[0].client, payload); got != "1" {
				t.Fatalf("%s told", got)
			}
		}
		s.Do("FLUSHALL")
		s.Do("PUBLISH", "fenlock-wake:"+p[0].client, "42")
		p[0].notified(p[0].waiter(42))
	})
}

// The connection that listens serves requests too: many at once, while messages
// arrive among the replies, some of them sent by its own requests.
func TestListeningAndRequestsShareAConnection(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s, p := queueServer(t, kind, 1)
		a := p[0]
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				name := fmt.Sprintf("orders/%d", i)
				hold, wait := long(name, "hold"), long(name, "wait")
				wait.Place = node.Place{Waiter: a.waiter(1 + i), Stamp: int64(i)}
				for _, step := range []struct {
					op   node.Op
					r    node.Request
					want node.Status
				}{
					{node.Acquire, hold, node.Granted},
					{node.Acquire, wait, node.Held},
					{node.Release, hold, node.Granted},
					{node.Acquire, wait, node.Granted},
					{node.Release, node.Request{Name: name, Holder: wait.Holder}, node.Granted},
				} {
					if got, err := a.Do(bounded(t), as(step.op, step.r)); err != nil || got.Status != step.want {
						t.Errorf("%s: %+v, %v; want %v", name, got, err, step.want)
						return
					}
				}
			})
		}
		all.Wait()
		seen := make(map[string]bool)
		for range 300 {
			seen[next(t, a.events)] = true
		}
		if len(seen) != 300 || seen[""] {
			t.Errorf("%d different waiters notified, want 300", len(seen))
		}
		if got := infoField(t, s, "pubsub_clients"); got != "" && got != "1" {
			t.Errorf("%s connections listen", got)
		}
		noTrace(t, s)
	})
}

// A request may find the connection lost, and the listener busy with a connection that does not
// come about. It can be given up all the same. With TLS a server that says nothing is enough for
// that.
func TestRequestDoesNotWaitForTheListener(t *testing.T) {
	t.Parallel()
	s := testserver.StartTLS(t, testserver.Kinds(t)[0])
	s.MarkAdmitted("fenlock:", time.Hour)
	addr := proxy.New(s.Addr(), nil)
	t.Cleanup(addr.Close)
	n := joined(t, "valkeys://"+addr.Addr(0)+"?ca="+s.CAFile, time.Hour)
	events := subscribed(t, n, "a")
	acquire(t, n, request("orders", "one"))

	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	connected := make(chan chan struct{}) // each until the client leaves
	go func() {
		for {
			c, err := hole.Accept()
			if err != nil {
				return
			}
			left := make(chan struct{})
			go func() {
				io.Copy(io.Discard, c)
				c.Close()
				close(left)
			}()
			select {
			case connected <- left:
			case <-left:
			}
		}
	}()
	addr.Retarget(hole.Addr().String())
	// On a machine that is slow just now the client may leave by chance.
	alone := false
	for range 5 {
		left := <-connected
		ctx, cancel := context.WithTimeout(bounded(t), 10*time.Millisecond)
		a, err := n.Do(ctx, as(node.Acquire, request("orders", "two")))
		cancel()
		if err == nil {
			t.Fatalf("%+v from nobody", a)
		}
		select {
		case <-left:
		case <-time.After(100 * time.Millisecond):
			alone = true
		}
		if alone {
			break
		}
	}
	if !alone {
		t.Fatal("requests last as long as the listener tries to connect")
	}
	addr.Retarget(s.Addr())
	if got := next(t, events); got != "" {
		t.Fatalf("event %q", got)
	}
}

// Not parallel: it looks at all goroutines. Nothing of the listener is left when
// Close has returned, whatever it was doing.
func TestCloseEndsTheListener(t *testing.T) {
	running := func() string {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "(*Listener)") {
				return stack
			}
		}
		return ""
	}
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		for _, state := range []struct {
			name string
			make func(s *testserver.Server)
		}{
			{"subscribed", func(*testserver.Server) {}},
			{"server down", (*testserver.Server).Kill},
			{"server hung", (*testserver.Server).Pause},
			{"cut", func(s *testserver.Server) { s.Do("CLIENT", "KILL", "TYPE", "pubsub") }},
		} {
			s, p := queueServer(t, kind, 1)
			state.make(s)
			p[0].Close()
			if stack := running(); stack != "" {
				t.Errorf("%s: after Close there is\n%s", state.name, stack)
			}
			if s.Pid() == 0 || state.name == "server hung" {
				continue
			}
			eventually(t, func() error {
				if clients := s.Do("CLIENT", "LIST"); strings.Contains(clients, "name=fenlock") {
					return errors.New("still connected: " + clients)
				}
				return nil
			})
		}
	})
}
