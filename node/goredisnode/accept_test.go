package goredisnode_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// An option with which a command may be sent twice, or a deadline is ignored, is refused by
// its name, before anything is sent.
func TestRefusedOptions(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(*redis.Options)
	}{
		{"", func(*redis.Options) {}},
		{"", func(o *redis.Options) { o.Protocol, o.MaintNotificationsConfig = 2, nil }}, // no such messages there
		{"", func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, time.Minute }}, // contexts bound both
		{"Options.MaxRetries to -1", func(o *redis.Options) { o.MaxRetries = 0 }},        // the default, 3
		{"up to 2 times", func(o *redis.Options) { o.MaxRetries = 1 }},
		{"Options.ContextTimeoutEnabled", func(o *redis.Options) { o.ContextTimeoutEnabled = false }},
		{"Options.ReadTimeout", func(o *redis.Options) { o.ReadTimeout = -2 }},
		{"Options.WriteTimeout", func(o *redis.Options) { o.WriteTimeout = -2 }},
		{"Options.MaintNotificationsConfig", func(o *redis.Options) { o.MaintNotificationsConfig = nil }},
		{"Options.MaintNotificationsConfig", func(o *redis.Options) {
			o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeAuto}
		}},
		{"host:port", func(o *redis.Options) { o.Addr = "somewhere" }},
	} {
		n, err := goredisnode.New(clientOf(t, "127.0.0.1:1", c.change))
		if c.says == "" {
			if err != nil {
				t.Error(err)
			} else {
				n.Close()
			}
			continue
		}
		if !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%v; want it to say %q", err, c.says)
		}
	}
}

// mock is a client of unknown type.
type mock struct{ redis.UniversalClient }

func TestRefusedClients(t *testing.T) {
	cluster := func(change func(*redis.ClusterOptions)) *redis.ClusterClient {
		opt := clusterOptions()
		opt.Addrs = []string{"127.0.0.1:1"}
		change(opt)
		c := redis.NewClusterClient(opt)
		t.Cleanup(func() { c.Close() })
		return c
	}
	failover := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m",
		SentinelAddrs: []string{"127.0.0.1:1"}, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer failover.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, MaxRetries: -1,
		ContextTimeoutEnabled: true})
	defer ring.Close()
	sentinels := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"},
		MaxRetries: -1, ContextTimeoutEnabled: true})
	defer sentinels.Close()
	for _, c := range []struct {
		says   string
		client redis.UniversalClient
	}{
		{"no client", nil}, {"no client", (*redis.Client)(nil)},
		{"no client", (*redis.ClusterClient)(nil)}, {"ClusterSlots", failover},
		{"Options.MaxRetries", cluster(func(o *redis.ClusterOptions) { o.MaxRetries = 3 })},
		{"Options.ContextTimeoutEnabled", cluster(func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = false })},
		{"Options.MaintNotificationsConfig", cluster(func(o *redis.ClusterOptions) { o.MaintNotificationsConfig = nil })},
		{"ReadOnly", cluster(func(o *redis.ClusterOptions) { o.RouteRandomly = true })},
		{"is empty", cluster(func(o *redis.ClusterOptions) { o.Addrs = nil })},
		{"host:port", cluster(func(o *redis.ClusterOptions) { o.Addrs = []string{"a"} })},
		{"a ring", ring}, {"mock", mock{}}, {"WithName", sentinels},
	} {
		if _, err := goredisnode.New(c.client); !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%T: %v; want it to say %q", c.client, err, c.says)
		}
	}
}

// What a group records is what valkeynode takes from a URL.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		change       func(*redis.Options)
		with         []goredisnode.Option
		name, member string
	}{
		{func(*redis.Options) {}, nil, "redis://127.0.0.1:7000", "127.0.0.1:7000"},
		{func(o *redis.Options) { o.DB, o.Password = 3, "swordfish" }, nil, "redis://127.0.0.1:7000/3", "127.0.0.1:7000/3"},
		{func(o *redis.Options) { o.Addr, o.DB = "/run/valkey.sock", 1 }, nil, "unix:///run/valkey.sock/1",
			"/run/valkey.sock/1"},
		{func(o *redis.Options) { o.Addr = "[::1]:7000" }, nil, "redis://[::1]:7000", "[::1]:7000"},
		{func(*redis.Options) {}, []goredisnode.Option{goredisnode.WithName("a")}, "redis://127.0.0.1:7000", "a"},
	} {
		n := open(t, clientOf(t, "127.0.0.1:7000", c.change), c.with...)
		if n.String() != c.name || n.Member() != c.member {
			t.Errorf("%s, %s; want %s, %s", n, n.Member(), c.name, c.member)
		}
	}
	opt := clusterOptions()
	opt.Addrs = []string{"b:7000", "a:7001"}
	cluster := redis.NewClusterClient(opt)
	defer cluster.Close()
	for _, c := range []struct {
		with         []goredisnode.Option
		name, member string
	}{
		{nil, "redis-cluster://a:7001,b:7000/fenlock", "a:7001,b:7000/fenlock"},
		{[]goredisnode.Option{goredisnode.WithTag("jobs")}, "redis-cluster://a:7001,b:7000/jobs", "a:7001,b:7000/jobs"},
		{[]goredisnode.Option{goredisnode.WithName("c")}, "redis-cluster://a:7001,b:7000/fenlock", "c"},
	} {
		if n := open(t, cluster, c.with...); n.String() != c.name || n.Member() != c.member {
			t.Errorf("%s, %s; want %s, %s", n, n.Member(), c.name, c.member)
		}
	}
	if _, err := goredisnode.New(cluster, goredisnode.WithTag("a}b")); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("a tag that is none: %v", err)
	}
	single := clientOf(t, "127.0.0.1:7000")
	if _, err := goredisnode.New(single, goredisnode.WithTag("a")); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("a tag of a server: %v", err)
	}
	for _, name := range []string{"", "a b", "*"} {
		if _, err := goredisnode.New(clientOf(t, "127.0.0.1:7000"), goredisnode.WithName(name)); !errors.Is(err,
			node.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := goredisnode.New(clientOf(t, "127.0.0.1:7000"), goredisnode.WithPrefix("fenlock-line:")); !errors.Is(err,
		node.ErrInvalid) {
		t.Error(err)
	}
}

// Two nodes of one client are one place; two clients may be two servers, whatever their address.
func TestLocation(t *testing.T) {
	client := func() *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: "h:1", MaxRetries: -1, ContextTimeoutEnabled: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
		t.Cleanup(func() { c.Close() })
		return c
	}
	at := func(c *redis.Client, with ...goredisnode.Option) any {
		t.Helper()
		n, err := goredisnode.New(c, with...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n.Location()
	}
	one := client()
	if at(one) != at(one) {
		t.Error("one server is two")
	}
	if at(one) == at(client()) || at(one) == at(one, goredisnode.WithPrefix("other:")) {
		t.Error("two nodes are taken for one")
	}
}
