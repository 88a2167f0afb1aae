package goredisnode_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/fenlock/fenlock/node/respnode"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// All tests are allowed what the nodes need, and nothing else.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "8") // most wait
	}
	rules, err := respnode.Permissions(respnode.DefaultPrefix)
	if err != nil {
		panic(err)
	}
	testserver.Restrict(rules...)
	logging.Disable() // the client tells of each connection that is lost
	os.Exit(m.Run())
}

// options are those that a client has to have, for a server at an address.
func options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// clientOf returns a client of a server, which ends with the test.
func clientOf(t testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	opt := options(addr)
	for _, c := range change {
		c(opt)
	}
	client := redis.NewClient(opt)
	t.Cleanup(func() { client.Close() })
	return client
}

func open(t testing.TB, client redis.UniversalClient, with ...goredisnode.Option) *goredisnode.Node {
	t.Helper()
	n, err := goredisnode.New(client, with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// joined returns a node that is alone in its group.
func joined(t testing.TB, addr string, maxTTL time.Duration, with ...goredisnode.Option) *goredisnode.Node {
	t.Helper()
	n := open(t, clientOf(t, addr), with...)
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: maxTTL}); err != nil {
		t.Fatal(err)
	}
	return n
}

// lockerOf returns a Locker on nodes.
func lockerOf(t testing.TB, ttl time.Duration, nodes ...node.Node) *fenlock.Locker {
	t.Helper()
	locker, err := fenlock.New(fenlock.Config{Nodes: nodes, TTL: ttl, MaxTTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locker.Close() })
	return locker
}

// eventually tries again until there is no error. The bound is for a hung test,
// not a claim about speed.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("never: %v", err)
}

// bounded returns a context that ends with the test, or when it hangs.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func request(op node.Op, name, holder string) node.Request {
	return node.Request{Op: op, Name: name, Holder: node.Holder(fmt.Sprintf("%032x:%s", holder, holder)), TTL: time.Minute,
		Token: 1}
}

// each runs a test on each kind of server, beside others.
func each(t *testing.T, test func(t *testing.T, kind testserver.Kind)) {
	t.Helper()
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		t.Parallel()
		test(t, kind)
	})
}
