package probe

import (
	"bufio"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// How long to wait for a reply that has to come, and for one that must not.
const (
	Patience = 10 * time.Second
	Silence  = 100 * time.Millisecond
)

// Wire is a connection of a test. It is closed when the test ends.
type Wire struct {
	net.Conn
	t       *testing.T
	replies *bufio.Reader
}

// Dial connects to a server.
func Dial(t *testing.T, addr string) *Wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Wire{conn, t, bufio.NewReader(conn)}
}

// Refused fails the test unless a new connection is cut, which may be noticed when
// it is made or when it is used.
func Refused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	(&Wire{conn, t, bufio.NewReader(conn)}).Dead()
}

// Say sends a line and returns the line that is the reply.
func (w *Wire) Say(timeout time.Duration, line string) (string, error) {
	if _, err := w.Write([]byte(line + "\r\n")); err != nil {
		return "", err
	}
	return w.Receive(timeout)
}

// Receive returns the next line.
func (w *Wire) Receive(timeout time.Duration) (string, error) {
	w.SetReadDeadline(time.Now().Add(timeout))
	reply, err := w.replies.ReadString('\n')
	return strings.TrimSpace(reply), err
}

// Receives fails the test unless these are the next lines.
func (w *Wire) Receives(lines ...string) {
	w.t.Helper()
	for _, want := range lines {
		if reply, err := w.Receive(Patience); reply != want {
			w.t.Errorf("%q, %v; want %s", reply, err, want)
		}
	}
}

// Answers fails the test unless the reply begins as it should.
func (w *Wire) Answers(line, want string) {
	w.t.Helper()
	if reply, err := w.Say(Patience, line); err != nil || !strings.HasPrefix(reply, want) {
		w.t.Errorf("%s: %q, %v; want %s", line, reply, err, want)
	}
}

// Silent fails the test if there is a reply, or an end of the connection.
func (w *Wire) Silent(line string) {
	w.t.Helper()
	if reply, err := w.Say(Silence, line); !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Errorf("%s: %q, %v; want no reply", line, reply, err)
	}
}

// Dead fails the test unless the connection was cut.
func (w *Wire) Dead() {
	w.t.Helper()
	reply, err := w.Say(Patience, "PING")
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Errorf("%q, %v; want the end of the connection", reply, err)
	}
}
