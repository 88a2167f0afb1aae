package natsnode

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fenlock/fenlock/node"
)

// A NATS server is a process of its own, made of this test binary. It can be killed, and the suite
// does not count its goroutines.
func TestMain(m *testing.M) {
	if folder := os.Getenv("NATSNODE_STORE"); folder != "" {
		serve(folder)
		return
	}
	os.Exit(m.Run())
}

// serve runs a server until its standard input ends, with the process that has started it.
func serve(folder string) {
	configuration := os.Getenv("NATSNODE_CONFIG")
	file := filepath.Join(folder, "nats.conf")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		panic(err)
	}
	options, err := natsserver.ProcessConfigFile(file)
	if err != nil {
		panic(err)
	}
	options.StoreDir, options.NoSigs, options.NoLog = folder, true, true
	s, err := natsserver.NewServer(options)
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		panic("the server is not ready")
	}
	fmt.Println(s.Addr(), s.MonitorAddr())
	io.Copy(io.Discard, os.Stdin)
}

// server is a NATS server that a test can kill and start again at the same address.
type server struct {
	t             testing.TB
	folder        string
	sync          string // sync_interval
	cluster       string // more configuration
	addr, monitor string
	process       *exec.Cmd
	stdin         io.Closer
}

func startServer(t testing.TB, sync string) *server {
	t.Helper()
	s := &server{t: t, folder: t.TempDir(), sync: sync, addr: "127.0.0.1:-1", monitor: "127.0.0.1:-1"}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = exec.Command(program)
	s.process.Stderr = os.Stderr
	s.process.Env = append(os.Environ(), "NATSNODE_STORE="+s.folder,
		fmt.Sprintf("NATSNODE_CONFIG=listen: %q\nhttp: %q\njetstream { sync_interval: %s }\n%s", s.addr, s.monitor, s.sync,
			s.cluster))
	stdout, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if _, scan := fmt.Sscan(line, &s.addr, &s.monitor); err != nil || scan != nil {
		s.kill()
		s.t.Fatalf("the server did not start: %q, %v, %v", line, err, scan)
	}
}

func (s *server) kill() {
	s.stdin.Close()
	s.process.Process.Kill()
	s.process.Wait()
}

// newCluster returns three servers of one cluster, to be started.
func newCluster(t testing.TB) (all []*server) {
	t.Helper()
	var routes []string
	for range 3 {
		l := freePort(t)
		defer l.Close() // all are open until each has its own port
		routes = append(routes, l.Addr().String())
	}
	for i, route := range routes {
		s := &server{t: t, folder: t.TempDir(), sync: "always", addr: "127.0.0.1:-1", monitor: "127.0.0.1:-1"}
		s.cluster = fmt.Sprintf("server_name: s%d\ncluster { name: c, listen: %q, routes: [\"nats://%s\"] }", i, route,
			strings.Join(routes, `", "nats://`))
		all = append(all, s)
	}
	return all // not started: the ports are free when this returns
}

// freePort listens on a port below those that the system gives to connections. One of these could
// be in use by the time that the server starts.
func freePort(t testing.TB) (l net.Listener) {
	t.Helper()
	var err error
	for range 100 {
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(12_000))); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

// connect connects as the package comment says, with more options if any.
func connect(t testing.TB, addr string, more ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+addr,
		append([]nats.Option{nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)},
			more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

var buckets atomic.Int64

// unused is the Config of a bucket that is not there.
func unused() Config {
	return Config{Bucket: fmt.Sprint("locks-", buckets.Add(1)), Replicas: 1, SyncAlways: true}
}

// bucket makes an empty bucket.
func bucket(t testing.TB, s *server) Config {
	t.Helper()
	c := unused()
	if err := Create(t.Context(), connect(t, s.addr), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// open opens a node with a connection of its own, for a new group of it alone.
func open(t testing.TB, addr string, c Config, more ...nats.Option) *Node {
	t.Helper()
	n := openUnjoined(t, addr, c, more...)
	join(t, n)
	return n
}

// openUnjoined opens a node that is in no group yet.
func openUnjoined(t testing.TB, addr string, c Config, more ...nats.Option) *Node {
	t.Helper()
	n, err := Open(t.Context(), connect(t, addr, more...), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// join says that a node is a new group of its own.
func join(t testing.TB, n *Node) {
	t.Helper()
	if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour, New: true}); err != nil {
		t.Fatal(err)
	}
}

// relay makes the connections of a client. From the first request on that has a text in it, no
// answers arrive; with deaf, no requests either, that one included. The client sends a request in
// one write.
type relay struct {
	at         []byte
	deaf       bool
	armed, cut atomic.Bool
}

type relayed struct {
	net.Conn
	*relay
}

func (r *relay) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return relayed{conn, r}, err
}

func (c relayed) Write(b []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(b, c.at) {
		c.cut.Store(true)
	}
	if c.deaf && c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c relayed) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.cut.Load() {
			return n, err
		}
	}
}

// words are the fields of a text, for messages that must have them all.
func words(text, all string) bool {
	for _, w := range strings.Fields(all) {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
