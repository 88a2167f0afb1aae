package valkeynode_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/valkey-io/valkey-go"
)

// A field that is the node's is refused by its name, before anything is sent.
func TestRefusedOptions(t *testing.T) {
	type option = valkey.ClientOption
	for says, change := range map[string]func(*option){
		"leave DisableAutoPipelining alone: contexts": func(o *option) { o.DisableAutoPipelining = true },
		"leave PipelineMultiplex alone: with several": func(o *option) { o.PipelineMultiplex = 1 },
		"leave AlwaysRESP2 alone":                     func(o *option) { o.AlwaysRESP2 = true },
		"leave ReplicaOnly alone: a replica":          func(o *option) { o.ReplicaOnly = true },
		"leave SendToReplicas alone: a replica": func(o *option) {
			o.SendToReplicas = func(valkey.Completed) bool { return true }
		},
		"leave Sentinel alone":      func(o *option) { o.Sentinel.MasterSet = "m" },
		"leave Standalone alone":    func(o *option) { o.Standalone.ReplicaAddress = []string{"a:1"} },
		"leave ClusterOption alone": func(o *option) { o.ClusterOption.MaxMovedRedirections = 1 },
		"leave ShuffleInit alone":   func(o *option) { o.ShuffleInit = true },
		"leave RetryDelay alone: a command": func(o *option) {
			o.RetryDelay = func(int, valkey.Completed,
				error) time.Duration {
				return 0
			}
		},
		"leave DialFn alone: it has no context": func(o *option) {
			o.DialFn = func(string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, nil }
		},
		"leave ConnLifetime alone":                      func(o *option) { o.ConnLifetime = time.Minute },
		"leave ConnWriteTimeout alone":                  func(o *option) { o.ConnWriteTimeout = time.Minute },
		"leave RingScaleEachConn alone: a node sets it": func(o *option) { o.RingScaleEachConn = 4 },
		"leave BlockingPoolSize alone":                  func(o *option) { o.BlockingPoolSize = 7 },
		"leave OnInvalidations alone": func(o *option) {
			o.OnInvalidations = func([]valkey.ValkeyMessage) {}
		},
		"leave ClientTrackingOptions alone": func(o *option) { o.ClientTrackingOptions = []string{"BCAST"} },
		"InitAddress has 0":                 func(o *option) { o.InitAddress = nil },
		"InitAddress has 2":                 func(o *option) { o.InitAddress = []string{"a:1", "b:1"} },
		"not host:port":                     func(o *option) { o.InitAddress = []string{"somewhere"} },
		"no database -1":                    func(o *option) { o.SelectDB = -1 },
		"one is enough": func(o *option) {
			o.Password, o.AuthCredentialsFn = "swordfish", func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
				return valkey.AuthCredentials{}, nil
			}
		},
	} {
		o := option{InitAddress: []string{"127.0.0.1:1"}}
		change(&o)
		_, err := valkeynode.New(o)
		if !errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "swordfish") {
			t.Errorf("%v; want it to say %q", err, says)
		}
	}
	// What a node sets itself may be written down as well.
	o := option{InitAddress: []string{"127.0.0.1:1"}, ForceSingleClient: true, DisableRetry: true, DisableCache: true,
		AlwaysPipelining: true, PipelineMultiplex: -1}
	n, err := valkeynode.New(o)
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	for _, with := range [][]valkeynode.Option{
		{valkeynode.WithName("")}, {valkeynode.WithName("a b")}, {valkeynode.WithPrefix("fenlock-line:")},
		{valkeynode.WithCredentials(func(context.Context) (string, string, error) { return "", "", nil })},
	} {
		if _, err := valkeynode.New(o, with...); !errors.Is(err, fenlock.ErrInvalid) {
			t.Error(err)
		}
	}
	if _, err := valkeynode.Open("valkey://127.0.0.1:1", valkeynode.WithName("a")); !errors.Is(err, fenlock.ErrInvalid) {
		t.Error(err)
	}
}

func TestNamesOfOptions(t *testing.T) {
	for _, c := range []struct {
		address, name string
		db            int
		tls           bool
		want, member  string
	}{
		{"h:7000", "", 0, false, "valkey://h:7000", "h:7000"},
		{"[::1]:7000", "", 2, true, "valkeys://[::1]:7000/2", "[::1]:7000/2"},
		{"/run/valkey.sock", "", 0, false, "unix:///run/valkey.sock", "/run/valkey.sock"},
		{"h:7000", "a", 0, false, "valkey://h:7000", "a"},
	} {
		o := valkey.ClientOption{InitAddress: []string{c.address}, SelectDB: c.db}
		if c.tls {
			o.TLSConfig = &tls.Config{}
		}
		var with []valkeynode.Option
		if c.name != "" {
			with = append(with, valkeynode.WithName(c.name))
		}
		n, err := valkeynode.New(o, with...)
		if err != nil {
			t.Fatal(err)
		}
		n.Close()
		if n.String() != c.want || n.Member() != c.member {
			t.Errorf("%s, %s; want %s, %s", n, n.Member(), c.want, c.member)
		}
	}
}

// An option's own dialer, credentials and TLS are used, and one that keeps its replies back costs
// no other node.
func TestNewWithAnOption(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		s := testserver.StartTLS(t, kind, "requirepass swordfish")
		s.MarkAdmitted("fenlock:", time.Minute)
		pem, err := os.ReadFile(s.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		pair, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		dialled, asked := 0, 0
		o := valkey.ClientOption{
			InitAddress: []string{"nowhere.invalid:1"},
			TLSConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
			DialCtxFn: func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				dialled++
				if address != "nowhere.invalid:1" {
					return nil, fmt.Errorf("asked for %s", address)
				}
				return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", s.Addr())
			},
			AuthCredentialsFn: func(valkey.AuthCredentialsContext) (valkey.AuthCredentials, error) {
				asked++
				return valkey.AuthCredentials{Username: "default", Password: "swordfish"}, nil
			},
		}
		n, err := valkeynode.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		if dialled != 0 {
			t.Error("New connects")
		}
		if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		granted(t, n, "orders")
		if dialled != 1 || asked != 1 {
			t.Errorf("%d connections, asked for the password %d times", dialled, asked)
		}
	})
}

// One connection, and no command twice: the option is completed to that.
func TestNewIsOneConnection(t *testing.T) {
	s := testserver.Start(t, testserver.Kinds(t)[0])
	s.MarkAdmitted("fenlock:", time.Minute)
	n, err := valkeynode.New(valkey.ClientOption{InitAddress: []string{s.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	locker, err := fenlock.New(fenlock.Config{Nodes: []node.Node{n}, TTL: time.Minute, MaxTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		lock(t, locker, fmt.Sprint(i), false)
	}
	if clients := strings.Count(s.Do("CLIENT", "LIST"), "name=fenlock"); clients != 1 {
		t.Errorf("%d connections", clients)
	}
	locker.Close()
}

func TestOpenAll(t *testing.T) {
	nodes, err := valkeynode.OpenAll("valkey://a", "redis://b:7000", "unix:///c")
	if err != nil || len(nodes) != 3 || nodes[1].String() != "redis://b:7000" {
		t.Errorf("%v, %v", nodes, err)
	}
	for _, n := range nodes {
		n.Close()
	}
	nodes, err = valkeynode.OpenAll("valkey://a", "valkey://ann:swordfish@b:7000?tls=no", "valkey://c")
	if nodes != nil || !errors.Is(err, fenlock.ErrInvalid) || !strings.Contains(err.Error(), "node 2 of 3") ||
		!strings.Contains(err.Error(), "valkey://b:7000") || strings.Contains(err.Error(), "swordfish") {
		t.Errorf("%v, %v", nodes, err)
	}
	if nodes, err := valkeynode.OpenAll(); nodes != nil || err != nil {
		t.Errorf("%v, %v", nodes, err)
	}
}

// A Locker in one call: it locks, and refuses what either half refuses.
func TestOpenLocker(t *testing.T) {
	server, _ := admitted(t, testserver.Kinds(t)[0], fenlock.DefaultMaxTTL)
	l, err := valkeynode.OpenLocker(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := l.Acquire(bounded(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Release(bounded(t)), l.Close()); err != nil {
		t.Error(err)
	}
	for _, urls := range [][]string{{}, {"valkey://a", "valkey://a"}, {"valkey://a", "http://b"}} {
		if l, err := valkeynode.OpenLocker(urls...); l != nil || !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%q: %v, %v; want ErrInvalid", urls, l, err)
		}
	}
}

// What a function dials is not known: two nodes with the same address may be two servers.
func TestLocationOfWhatAFunctionDials(t *testing.T) {
	open := func(option valkey.ClientOption, with ...valkeynode.Option) any {
		t.Helper()
		option.InitAddress = []string{"h:1"}
		n, err := valkeynode.New(option, with...)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		return n.Location()
	}
	if open(valkey.ClientOption{}) != open(valkey.ClientOption{}) {
		t.Error("one server is two")
	}
	if open(valkey.ClientOption{}) == open(valkey.ClientOption{}, valkeynode.WithPrefix("other:")) {
		t.Error("another prefix is other locks")
	}
	dials := valkey.ClientOption{DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		return nil, errors.New("not now")
	}}
	if open(dials) == open(dials) {
		t.Error("two nodes are taken for one")
	}
}
