package session

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// serve accepts sessions, and answers nothing else.
func serve(t *testing.T, then func(net.Conn)) (address string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	connections = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer conn.Close()
				io.ReadFull(conn, make([]byte, 4+45))
				io.WriteString(conn, "\x00\x00\x00\x25"+"\x00\x00\x00\x00"+"\x00\x00\xea\x60"+"\x00\x00\x00\x00\x00\x00\x00\x07"+
					"\x00\x00\x00\x10"+strings.Repeat("p", 16)+"\x00")
				then(conn)
			}()
		}
	}()
	return listener.Addr().String(), connections
}

func open(t *testing.T, address string) *Session {
	s := New(Config{Servers: []string{address}, Timeout: func() time.Duration { return time.Minute },
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}})
	t.Cleanup(func() { s.Close(false) })
	return s
}

// A process that was stopped has the leader hear of its session before it takes leases in it.
func TestPausedProcessConnectsAnew(t *testing.T) {
	address, _ := serve(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	s := open(t, address)
	first, err := s.Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Link(t.Context()); err != nil || again != first {
		t.Fatalf("another connection, or none: %v", err)
	}
	first.mu.Lock()
	first.heardAt -= Silence + time.Second
	first.mu.Unlock()
	if next, err := s.Link(t.Context()); err != nil || next == first {
		t.Errorf("the same connection, or none: %v", err)
	}
}

// What was found over a connection that is lost by then does not vouch for the servers of the next.
func TestBelieveOfALostConnection(t *testing.T) {
	address, _ := serve(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	link, err := open(t, address).Link(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	link.session.unproven.Store(7)
	link.Believe()
	if n := link.Behind(); n != 0 {
		t.Errorf("%d is not believed", n)
	}
	link.fail(io.EOF)
	link.session.unproven.Store(8)
	link.Believe()
	if n := link.Behind(); n != 8 {
		t.Errorf("%d, and 8 was seen over the next connection", n)
	}
}

// A server that begins sessions and ends them costs no storm of connections.
func TestServerThatDropsClients(t *testing.T) {
	address, connections := serve(t, func(net.Conn) {})
	began := time.Now()
	open(t, address).Link(t.Context())
	for connections.Load() < 7 {
		time.Sleep(time.Millisecond)
	}
	if least := 600 * time.Millisecond; time.Since(began) < least { // 3/4 of 20, 40, 80 ... ms
		t.Errorf("7 connections within %v", time.Since(began))
	}
}

// A server that has too many connections closes the next one at once. The client meets that
// in whatever it does at that moment, and says the same of it.
func TestServerThatClosesAtOnce(t *testing.T) {
	for _, met := range []error{syscall.EPIPE, syscall.ECONNRESET, io.EOF} {
		dial := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", met)}
		s := New(Config{Servers: []string{"a:1"}, Timeout: func() time.Duration { return time.Minute },
			Dial: func(context.Context, string) (net.Conn, error) { return nil, dial }})
		if _, err := s.connect("a:1", time.Second, false); !errors.Is(err, errRefused) ||
			!strings.HasPrefix(err.Error(), "a:1: ") {
			t.Errorf("%v while connecting: %v", met, err)
		}
		s.config.Dial = func(context.Context, string) (net.Conn, error) { return closed{met}, nil }
		if _, err := s.connect("a:1", time.Second, false); !errors.Is(err, errRefused) {
			t.Errorf("%v while writing: %v", met, err)
		}
	}
}

// closed is a connection whose other end closed it.
type closed struct{ met error }

func (c closed) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: c.met}
}
func (closed) Read([]byte) (int, error)         { return 0, io.EOF }
func (closed) Close() error                     { return nil }
func (closed) LocalAddr() net.Addr              { return nil }
func (closed) RemoteAddr() net.Addr             { return nil }
func (closed) SetDeadline(time.Time) error      { return nil }
func (closed) SetReadDeadline(time.Time) error  { return nil }
func (closed) SetWriteDeadline(time.Time) error { return nil }
