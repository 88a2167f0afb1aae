//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// stage is a cluster, and a scene on it, for tests of faults. Its TTL is short, so
// that faults which last are over soon.
type stage struct {
	t     *testing.T
	c     *cluster
	crew  *standIns
	noted []string
}

func newStage(t *testing.T, nodes int, p persistence) *stage {
	t.Helper()
	return &stage{t: t, c: newCluster(t, testserver.Kinds(t)[0], nodes, p, 1), crew: &standIns{n: 3}}
}

func (st *stage) scene(node int, seed uint64) *scene {
	return &scene{
		rng: rand.New(rand.NewPCG(seed, 0)), cluster: st.c, node: node, clients: st.crew, ttl: 100 * time.Millisecond,
		note: func(fault string, node int, breaks string) {
			st.noted = append(st.noted, fmt.Sprintf("%s %d %s", fault, node, breaks))
		},
	}
}

// inject has a fault begin; heal fails the test if the fault cannot be healed.
func (st *stage) inject(name string, node int, seed uint64) (heal func()) {
	st.t.Helper()
	undo, err := kindNamed(st.t, name).inject(st.scene(node, seed))
	if err != nil {
		st.t.Fatalf("%s: %v", name, err)
	}
	return func() {
		st.t.Helper()
		if err := undo(); err != nil {
			st.t.Fatalf("%s: heal: %v", name, err)
		}
		st.normal(node)
	}
}

func kindNamed(t *testing.T, name string) kind {
	t.Helper()
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	t.Fatalf("there is no kind %q", name)
	return kind{}
}

// server asks a server past the proxy.
func (st *stage) server(node int, args ...string) string {
	st.t.Helper()
	reply, err := st.c.members[node].ask(patientTimeout, args...)
	if err != nil {
		st.t.Fatal(err)
	}
	return reply
}

// normal fails the test unless the server and its network are as they began.
func (st *stage) normal(node int) {
	st.t.Helper()
	m := st.c.members[node]
	if off := m.clock.off(); off != 0 {
		st.t.Errorf("the clock is off by %v", off)
	}
	m.proxy.mu.Lock()
	rules := len(m.proxy.rules)
	m.proxy.mu.Unlock()
	if rules != 0 {
		st.t.Errorf("%d rules are left at the proxy", rules)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.current().Pid()))
	if err != nil || m.frozen != 0 || strings.Contains(string(stat), ") T ") {
		st.t.Errorf("not running: %q, %v, frozen %d times", stat, err, m.frozen)
		return
	}
	for args, want := range map[string]string{
		"CONFIG GET maxmemory":        "[maxmemory 0]",
		"CONFIG GET maxmemory-policy": "[maxmemory-policy noeviction]",
		"CONFIG GET save":             "[save ]",
		"CONFIG GET dbfilename":       "[dbfilename dump.rdb]",
		"SET normal 1 PX 1":           "OK",
	} {
		if got := st.server(node, strings.Fields(args)...); got != want {
			st.t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	users := strings.Replace(st.server(node, "ACL", "LIST"), "sanitize-payload ", "", 1)
	if !strings.Contains(users, "user default on nopass ~* &* +@all ") {
		st.t.Errorf("users: %s", users)
	}
	if info := st.server(node, "INFO", "replication"); field(info, "role") != "master" {
		st.t.Errorf("role %s", field(info, "role"))
	}
	if reply, err := st.dial(node, 0).say(patientTimeout, "PING"); reply != "+PONG" {
		st.t.Errorf("through the proxy: %q, %v", reply, err)
	}
}

// standIns are clients that only count.
type standIns struct {
	n              int
	paused, killed int
}

func (s *standIns) count() int { return s.n }

func (s *standIns) pause(i int) (func(), error) {
	if i < 0 || i >= s.n {
		return nil, errors.New("no such client")
	}
	s.paused++
	return func() { s.paused-- }, nil
}

func (s *standIns) kill(i int) error {
	if i < 0 || i >= s.n {
		return errors.New("no such client")
	}
	s.killed++
	return nil
}

// wire is a connection through the proxy. soon is for replies that are not to come.
type wire struct {
	net.Conn
	replies *bufio.Reader
}

const soon = 100 * time.Millisecond

func (st *stage) dial(node, client int) *wire {
	st.t.Helper()
	return dialWire(st.t, st.addr(node, client))
}

func (st *stage) addr(node, client int) string {
	_, addr, _ := strings.Cut(st.c.urlsFor(client)[node], "://")
	return addr
}

// refused fails the test unless a new connection is cut, which may be noticed when
// it is made or when it is used.
func refused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	(&wire{conn, bufio.NewReader(conn)}).dead(t)
}

func dialWire(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &wire{conn, bufio.NewReader(conn)}
}

// say sends a line and returns the line that is the reply.
func (w *wire) say(timeout time.Duration, line string) (string, error) {
	if _, err := w.Write([]byte(line + "\r\n")); err != nil {
		return "", err
	}
	return w.hear(timeout)
}

func (w *wire) hear(timeout time.Duration) (string, error) {
	w.SetReadDeadline(time.Now().Add(timeout))
	reply, err := w.replies.ReadString('\n')
	return strings.TrimSpace(reply), err
}

// silent fails the test if there is a reply, or an end of the connection.
func (w *wire) silent(t *testing.T, line string) {
	t.Helper()
	if reply, err := w.say(soon, line); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: %q, %v; want no reply", line, reply, err)
	}
}

// answers fails the test unless the reply begins as it should.
func (w *wire) answers(t *testing.T, line, want string) {
	t.Helper()
	if reply, err := w.say(patientTimeout, line); err != nil || !strings.HasPrefix(reply, want) {
		t.Errorf("%s: %q, %v; want %s", line, reply, err, want)
	}
}

// dead fails the test unless the connection was cut.
func (w *wire) dead(t *testing.T) {
	t.Helper()
	reply, err := w.say(patientTimeout, "PING")
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v; want the end of the connection", reply, err)
	}
}

func TestCluster(t *testing.T) {
	for _, kind := range testserver.Kinds(t) {
		c := newCluster(t, kind, 2, always, 1)
		version, err := c.version()
		if err != nil || !strings.HasPrefix(strings.ToLower(version), string(kind)+" ") {
			t.Errorf("version %q, %v", version, err)
		}
		st := &stage{t: t, c: c}
		for node := range 2 {
			st.normal(node)
			if !c.admitted(node) {
				t.Errorf("node %d is not admitted", node)
			}
		}
		if c.urls()[0] != c.urlsFor(0)[0] || c.urlsFor(0)[0] == c.urlsFor(1)[0] || c.urls()[0] == c.urls()[1] {
			t.Errorf("addresses: %v, %v", c.urls(), c.urlsFor(1))
		}
		if left, err := c.leftovers(); err != nil || len(left) != 0 {
			t.Errorf("leftovers %v, %v", left, err)
		}
		st.server(1, "SET", "fenlock:orders/42", "0123:alice", "PX", "60000")
		st.server(1, "ZADD", linePrefix+"orders/42", "1", "x")
		st.server(0, "SET", "rival", "abc")
		left, err := c.leftovers()
		if err != nil || len(left) != 2 || left[0].node != 0 || left[0].name != "rival" || left[1].node != 1 || left[1].name != "orders/42" ||
			!strings.Contains(left[1].text, "alice") {
			t.Errorf("leftovers %+v, %v", left, err)
		}
		if kinds[0].name != "kill" || !kinds[0].allows("redsync", always) || kinds[0].allows("redsync", off) {
			t.Error("a crash is within redsync's assumptions only if it costs no memory")
		}
	}
}

// A server that does not answer is not admitted, and nobody waits for it for long.
func TestNotAdmitted(t *testing.T) {
	st := newStage(t, 1, off)
	heal := st.inject("stop server", 0, 1)
	if st.c.admitted(0) {
		t.Error("admitted while it stands still")
	}
	heal()
	if !st.c.admitted(0) {
		t.Error("not admitted any more")
	}
	st.server(0, "HSET", registersKey, "admitted", "somebody else")
	if st.c.admitted(0) {
		t.Error("admitted with the mark of another server")
	}
}
