package goredisnode_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
	"github.com/fenlock/fenlock/node"
	"github.com/redis/go-redis/v9"
)

// executed is how many requests a server has carried out.
func executed(t testing.TB, s *testserver.Server) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_evalsha:calls=([0-9]+)`).FindStringSubmatch(s.Do("INFO", "commandstats"))
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// A request whose answer is lost, or late, or whose connection is cut, is carried out once at most.
// Its error does not say whether it was.
func TestLostAnswers(t *testing.T) {
	for name, rule := range map[string]proxy.Rule{
		"lost":      {From: proxy.Effect{Lose: true}},
		"held":      {From: proxy.Effect{Hold: true}},
		"not there": {To: proxy.Effect{Lose: true}},
		"stalled":   {To: proxy.Effect{Hold: true}},
		"cut":       {Cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testserver.Start(t, testserver.Kinds(t)[0])
			s.MarkAdmitted("fenlock:", time.Minute)
			relay := proxy.New(s.Addr(), nil)
			t.Cleanup(relay.Close)
			n := joined(t, relay.Addr(0), time.Minute)
			if a, err := n.Do(bounded(t), request(node.Acquire, "before", "one")); err != nil || a.Status != node.Granted {
				t.Fatalf("%+v, %v", a, err)
			}
			before := executed(t, s)
			lift := relay.Impose(rule)
			defer lift()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := n.Do(ctx, request(node.Acquire, "orders", "two"))
			if err == nil || errors.Is(err, node.ErrMisconfigured) ||
				strings.Contains(err.Error(), string(request(0, "", "two").Holder)) {
				t.Errorf("%v; want an error that is no refusal", err)
			}
			if errors.Is(err, node.ErrNotSent) && !rule.Cut {
				t.Errorf("%v is said not to be sent", err)
			}
			lift()
			// It comes back by itself, and the next one is carried out once.
			eventually(t, func() error {
				a, err := n.Do(bounded(t), request(node.Acquire, "later", "three"))
				if err == nil && a.Status != node.Granted {
					t.Fatalf("%+v", a)
				}
				return err
			})
			if got := executed(t, s) - before; got > 2 {
				t.Errorf("%d executions of two requests", got)
			}
			// Whether it was carried out, its own holder can tell by extending: no other has it.
			if a, err := n.Do(bounded(t), request(node.Acquire, "orders", "two")); err != nil ||
				a.Status != node.Granted && a.Status != node.Held {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

// A client that the program closes is told apart, and costs its own node only.
func TestClosedBySomebodyElse(t *testing.T) {
	servers := testserver.Group(t, testserver.Kinds(t)[0], 3)
	var nodes []node.Node
	var first *redis.Client
	for i, s := range servers {
		s.MarkAdmitted("fenlock:", 10*time.Second)
		c := clientOf(t, s.Addr())
		if i == 0 {
			first = c
		}
		nodes = append(nodes, open(t, c))
	}
	l := lockerOf(t, 10*time.Second, nodes...)
	lock, err := l.Acquire(bounded(t), "orders")
	if err != nil {
		t.Fatal(err)
	}
	// Two answers were enough for that: the client is closed when the third one has come, too.
	r := request(node.Acquire, "x", "x")
	r.TTL = time.Second
	if _, err := nodes[0].Do(bounded(t), r); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if _, err := nodes[0].Do(bounded(t), r); !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
		!strings.Contains(err.Error(), "closed by the program") {
		t.Errorf("%v; want that the client was closed", err)
	}
	if err := lock.Extend(bounded(t)); err != nil {
		t.Errorf("two of three are there: %v", err)
	}
	if err := lock.Release(bounded(t)); err != nil {
		t.Error(err)
	}
	if again, err := l.Acquire(bounded(t), "orders"); err != nil || again.Token() <= lock.Token() {
		t.Errorf("%v, %v", again, err)
	}
}

// The client is the caller's: it serves on when the node is closed.
func TestCloseLeavesTheClient(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	s.MarkAdmitted("fenlock:", time.Minute)
	c := clientOf(t, s.Addr())
	n := open(t, c)
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(bounded(t), request(node.Acquire, "a", "a")); err != nil {
		t.Fatal(err)
	}
	n.Close()
	n.Close()
	if err := c.Info(bounded(t)).Err(); err != nil {
		t.Error(err)
	}
	if _, err := n.Do(bounded(t), request(node.Acquire, "a", "a")); err == nil {
		t.Error("a closed node works")
	}
	if again := open(t, c); again.Join(node.Group{Nodes: []node.Node{again}, MaxTTL: time.Minute}) == nil {
		if _, err := again.Do(bounded(t), request(node.Acquire, "b", "b")); err != nil {
			t.Error(err)
		}
	}
}

// A pool whose connections the program keeps to itself is an error that says so, of what was
// not sent.
func TestPoolThatIsUsedUp(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	s.MarkAdmitted("fenlock:", time.Minute)
	c := clientOf(t, s.Addr(), func(o *redis.Options) {
		o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize, o.PoolTimeout = 1, 1, -1, 100*time.Millisecond
	})
	n := open(t, c)
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(bounded(t), request(node.Acquire, "a", "a")); err != nil {
		t.Fatal(err)
	}
	kept := c.Conn()
	if err := kept.Info(bounded(t)).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Do(bounded(t), request(node.Acquire, "b", "b")); !errors.Is(err, node.ErrNotSent) ||
		!strings.Contains(err.Error(), "Options.PoolSize") {
		t.Errorf("%v; want that the pool is used up", err)
	}
	kept.Close()
	if _, err := n.Do(bounded(t), request(node.Acquire, "b", "b")); err != nil {
		t.Error(err)
	}
}

// No server ends the process, whatever it replies, and no error has the password.
func TestHostileReplies(t *testing.T) {
	for _, reply := range []string{
		"$9223372036854775807\r\n", "$9223372036854775805\r\n", "*9223372036854775807\r\n", "%9223372036854775807\r\n",
		"$-2\r\n", "*-5\r\n", "%-1\r\n", "~-1\r\n",
		"*1\r\n*1\r\n*1\r\n*9223372036854775807\r\n", "=3\r\nabc\r\n", "=-1\r\n", "!-1\r\n", "_\r\n", "#x\r\n", ",x\r\n",
		"(x\r\n", "|1\r\n+a\r\n+b\r\n", ">1\r\n+x\r\n", ">0\r\n", ">-1\r\n",
		"\r\n", "\n", "x\r\n", "+OK\r\n+OK\r\n+OK\r\n+OK\r\n", "%1\r\n*1\r\n+a\r\n+b\r\n", "-\r\n", "+\r\n", ":\r\n",
		":x\r\n", "*1\r\n", "HTTP/1.1 400\r\n\r\n",
		"-ERR unknown command `HELLO`, with args beginning with: `3` `auth` `ann` `swordfish` \r\n",
	} {
		addr := hostile(t, reply)
		c := clientOf(t, addr, func(o *redis.Options) {
			o.CredentialsProvider = func() (string, string) { return "ann", "swordfish" }
		})
		n := open(t, c)
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		_, err := n.Do(ctx, request(node.Acquire, "a", "a"))
		_, looked := n.Inspect(ctx, "a")
		heard := n.Listen(ctx, strings.Repeat("a", 32), func(string) {})
		cancel()
		for _, err := range []error{err, looked, heard} {
			if err == nil || strings.Contains(err.Error(), "swordfish") {
				t.Errorf("%q: %v", reply, err)
			}
		}
		n.Close()
	}
}

// hostile serves one reply to everything but what sets a connection up, or to that too.
func hostile(t *testing.T, reply string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					words, err := readCommand(r)
					if err != nil {
						return
					}
					answer := reply
					if strings.HasPrefix(reply, "-ERR unknown command") {
						// also to what has the password
					} else if word := strings.ToUpper(words[0]); word == "HELLO" || word == "CLIENT" || word == "AUTH" {
						answer = "%1\r\n+proto\r\n:3\r\n"
						if word != "HELLO" {
							answer = "+OK\r\n"
						}
					}
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func readCommand(r *bufio.Reader) (words []string, err error) {
	var n, size int
	if _, err := fmt.Fscanf(r, "*%d\n", &n); err != nil {
		return nil, err
	}
	for range n {
		if _, err := fmt.Fscanf(r, "$%d\n", &size); err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, nil
}

// Other code that sends SELECT through the client has moved a connection to another database, which
// has no locks and no memory.
func TestSelectedByOthers(t *testing.T) {
	for name, move := range map[string]func(ctx context.Context, client *redis.Client) error{
		"pipeline": func(ctx context.Context, client *redis.Client) error {
			_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Do(ctx, "SELECT", 1).Err() })
			return err
		},
		"reset": func(ctx context.Context, client *redis.Client) error {
			_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Do(ctx, "reset").Err() })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const maxTTL = time.Second
			db := map[string]int{"pipeline": 0, "reset": 1}[name]
			s := testserver.Start(t, testserver.Kinds(t)[0])
			s.Do("ACL", "SETUSER", "default", "allcommands")
			client := clientOf(t, s.Addr(), func(o *redis.Options) { o.PoolSize, o.DB = 1, db })
			n := open(t, client)
			if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL, New: true}); err != nil {
				t.Fatal(err)
			}
			lock := request(node.Acquire, "a", "one")
			lock.TTL = maxTTL
			eventually(t, func() error {
				a, err := n.Do(bounded(t), lock)
				if err == nil && a.Status != node.Granted {
					return fmt.Errorf("%+v", a)
				}
				return err
			})
			if err := move(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			lock.Op = node.Extend
			for range 20 { // longer than a quarantine
				a, err := n.Do(bounded(t), lock)
				if err != nil || a.Status != node.Granted || a.Register != 1 {
					t.Fatalf("%+v, %v; want it extended", a, err)
				}
				time.Sleep(maxTTL / 8)
			}
		})
	}
}

// A subscription whose server, or network, says nothing any more is given up, and made anew when
// something is heard again. What was missed meanwhile is told.
func TestSilentSubscription(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Kinds(t)[0])
	relay := proxy.New(s.Addr(), nil)
	t.Cleanup(relay.Close)
	n := joined(t, relay.Addr(0), time.Minute)
	client, told := strings.Repeat("a", node.IDLength), make(chan string, 100)
	if err := n.Listen(bounded(t), client, func(waiter string) { told <- waiter }); err != nil {
		t.Fatal(err)
	}
	subscribers := func() string { return fmt.Sprint(s.Do("PUBSUB", "NUMSUB", "fenlock-wake:"+client)) }
	if got := subscribers(); !strings.Contains(got, "1") {
		t.Fatalf("nobody listens: %q", got)
	}
	lift := relay.Impose(proxy.Rule{From: proxy.Effect{Hold: true}})
	defer lift()
	eventually(t, func() error {
		if got := subscribers(); !strings.Contains(got, "0") {
			return fmt.Errorf("still there: %q", got)
		}
		return nil
	})
	lift()
	select {
	case waiter := <-told:
		if waiter != "" {
			t.Errorf("a notice: %q", waiter)
		}
	case <-bounded(t).Done():
		t.Error("it was not made anew")
	}
}
