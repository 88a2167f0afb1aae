package natsnode

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

var buckets atomic.Int64

// unused returns the URL of a bucket that is not there.
func unused(servers ...*testserver.NATS) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Addr())
	}
	return fmt.Sprintf("nats://%s/locks-%d?sync_interval=always&replicas=%d", strings.Join(hosts, ","), buckets.Add(1),
		len(servers))
}

// bucket makes an empty bucket, and returns its URL.
func bucket(t testing.TB, servers ...*testserver.NATS) string {
	t.Helper()
	url := unused(servers...)
	if err := unjoined(t, url).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return url
}

// unjoined opens a node that is in no group yet.
func unjoined(t testing.TB, url string) *Node {
	t.Helper()
	n, err := Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// open opens a node for a new group of it alone.
func open(t testing.TB, url string) *Node {
	t.Helper()
	n := unjoined(t, url)
	join(t, n)
	return n
}

// join says that a node is a new group of its own.
func join(t testing.TB, n *Node) {
	t.Helper()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour, New: true}); err != nil {
		t.Fatal(err)
	}
}

// admin returns a connection that may do everything.
func admin(t testing.TB, s *testserver.NATS) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("nats://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// relay is the network before a server. From the first request on that has a text in it, no answers
// arrive; if deaf, no requests either, that one included. The client sends a request in one write.
type relay struct {
	net.Listener
	mu   sync.Mutex
	at   string // "": nothing is lost
	deaf bool
	cut  bool
}

func (r *relay) Addr() string { return r.Listener.Addr().String() }

func newRelay(t testing.TB, to string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { r.pass(client, server, true) })
			all.Go(func() { r.pass(server, client, false) })
		}
	})
	return r
}

func (r *relay) lose(at string, deaf bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.deaf = at, deaf
}

// pass copies what comes, unless it is to be lost.
func (r *relay) pass(from, to net.Conn, requests bool) {
	defer to.Close()
	for b := make([]byte, 1<<16); ; {
		n, err := from.Read(b)
		r.mu.Lock()
		r.cut = r.cut || requests && r.at != "" && strings.Contains(string(b[:n]), r.at)
		lost := r.cut && (r.deaf || !requests)
		r.mu.Unlock()
		if !lost {
			to.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// eventually tries until there is no error, for a minute at most.
func eventually(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = f(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatal(err)
}

var (
	request = nodetest.Request
	as      = nodetest.As
	want    = nodetest.Want
)

func with(r node.Request, token fence.Token) node.Request {
	r.Token = token
	return r
}

// words reports whether a text has all words of another.
func words(text, all string) bool {
	for w := range strings.FieldsSeq(all) {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
