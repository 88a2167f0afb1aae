package mysqlnode_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// mover is a proxy as some are. It has connections of its own to its servers. What a client sends
// goes to whichever is the primary now, from one statement to the next.
type mover struct {
	listener net.Listener
	mu       sync.Mutex
	to       target
	work     sync.WaitGroup
}

// target is a server, and how often the proxy was moved.
type target struct {
	address string
	moves   int
}

func newMover(t *testing.T, to string) *mover {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mover{listener: l, to: target{address: to}}
	m.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.work.Go(func() { m.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); m.work.Wait() })
	return m
}

func (m *mover) move(to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = target{to, m.to.moves + 1}
}

func (m *mover) target() target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.to
}

// packet reads one packet, with its head.
func (m *mover) packet(c net.Conn) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	p := append(head, make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)...)
	_, err := io.ReadFull(c, p[4:])
	return p, err
}

// serve relays one client's statements. Root has no password, so that what the client has answered
// one server is an answer for each.
func (m *mover) serve(client net.Conn) {
	defer client.Close()
	var login []byte
	leave := func() {}
	defer func() { leave() }()
	connect := func(address string) (server net.Conn, err error) {
		leave()
		if server, err = net.Dial("tcp", address); err != nil {
			return nil, err
		}
		answered := make(chan struct{})
		leave = func() { server.Close(); <-answered }
		defer func() {
			go func() {
				defer close(answered)
				if err == nil {
					io.Copy(client, server)
				}
			}()
		}()
		greeting, err := m.packet(server)
		if err != nil {
			return nil, err
		}
		first := login == nil
		if first {
			client.Write(greeting)
			if login, err = m.packet(client); err != nil {
				return nil, err
			}
		}
		server.Write(login)
		ok, err := m.packet(server)
		if first {
			client.Write(ok)
		}
		return server, err
	}
	at := m.target()
	server, err := connect(at.address)
	for err == nil {
		var command []byte
		if command, err = m.packet(client); err != nil {
			return
		}
		if now := m.target(); at != now {
			at = now
			server, err = connect(at.address)
		}
		if err == nil {
			server.Write(command)
		}
	}
}

// A proxy that moves a connection between the read and the write has the write done by another
// server. That is a promoted replica, which has the same row, and no mark. It does nothing there.
func TestMovedConnection(t *testing.T) {
	t.Parallel()
	s, replica := durable(t, testserver.StartMariaDB(t)), testserver.StartMariaDB(t)
	n := made(t, s, time.Hour, true)
	lock := as(node.Acquire, request(node.Acquire, "held"), time.Minute)
	lock.Token = want(t, node.Granted)(n.Do(t.Context(), lock)).Register
	s.Stop()
	replica.Stop()
	if err := os.RemoveAll(replica.Data()); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("cp", "-a", s.Data(), replica.Data()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	s.Restart()
	replica.Restart()
	m := newMover(t, s.Addr())
	moved := open(t, "mysql://root@"+m.listener.Addr().String()+"/locks?name="+n.String())
	join(t, moved, time.Hour, false)
	before := contents(t, replica)
	for _, r := range []node.Request{request(node.Acquire, "free"), as(node.Extend, lock), as(node.Confirm, lock),
		request(node.ForceRelease, "held"), as(node.Release, lock)} {
		m.move(s.Addr())
		take(t, moved, "warm up "+r.Op.String())
		moved.BeforeWrite(func() {
			moved.BeforeWrite(nil)
			m.move(replica.Addr())
		})
		r.TTL = time.Minute
		a, err := moved.Do(t.Context(), r)
		if problem(t, err, "leads to another server"); !errors.Is(err, node.ErrNotSent) {
			t.Errorf("%v: %+v, %v", r.Op, a, err)
		}
		if after := contents(t, replica); after != before {
			t.Errorf("%v: the replica has %s, and had %s", r.Op, after, before)
		}
	}
}

// The same where the server is the same, and its next run may lack the newest locks.
func TestMovedToTheNextRun(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t, "innodb-flush-log-at-trx-commit=2")
	used(t, s, time.Hour).Close()
	m := newMover(t, s.Addr())
	moved := open(t, "mysql://root@"+m.listener.Addr().String()+"/locks?name="+s.Addr()+"/locks")
	join(t, moved, time.Hour, false)
	lock := take(t, moved, "held")
	moved.BeforeWrite(func() {
		moved.BeforeWrite(nil)
		s.Kill()
		time.Sleep(time.Second) // a run is known by the second in which it began
		s.Restart()
		for range 50 { // connections are counted from the start
			open(t, s.URL()).Inspect(t.Context(), "held")
		}
		m.move(s.Addr())
	})
	before := contents(t, s)
	a, err := moved.Do(t.Context(), as(node.Extend, lock))
	if problem(t, err, "shares its connections"); !errors.Is(err, node.ErrNotSent) {
		t.Errorf("%+v, %v", a, err)
	}
	if after := contents(t, s); after != before {
		t.Errorf("the server has %s, and had %s", after, before)
	}
	want(t, node.Rejoining)(moved.Do(t.Context(), as(node.Extend, lock)))
}
