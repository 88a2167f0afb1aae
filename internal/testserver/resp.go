//go:build unix

package testserver

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// callTimeout bounds a command of Do, the connection included.
const callTimeout = 5 * time.Second

// Do sends one command on a connection of its own and returns the reply as text. Strings and
// integers are as they are, an error is as the server words it ("ERR unknown command ...",
// "NOSCRIPT ..."). Nil is "(nil)", an array "[a b [c]]". It fails the test if there is no reply
// within 5 seconds. Not by a client library, so that assertions do not share the traps of what they
// check.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	reply, err := s.operate(args...)
	if err != nil {
		s.t.Fatalf("%s: %s: %v", s.Addr(), args[0], err)
	}
	return reply
}

// Info returns a field of a section of the server's INFO, "" if there is none.
func (s *Server) Info(section, field string) string {
	s.t.Helper()
	return Field(s.Do("INFO", section), field)
}

// Field returns a field of an INFO, "" if there is none.
func Field(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Ask is Do after AUTH as user, "" for the default user, of a server that may not answer. The error
// says that there was no reply within the timeout, the connection included. If AUTH is refused, its
// error is the reply. No password, no AUTH. Safe for concurrent use.
func (s *Server) Ask(user, password string, timeout time.Duration, args ...string) (string, error) {
	deadline := time.Now().Add(timeout)
	conn, err := s.dial(deadline)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(deadline)
	replies := bufio.NewReader(conn)
	if password != "" {
		if user == "" {
			user = "default"
		}
		reply, err := roundTrip(conn, replies, "AUTH", user, password)
		if err != nil || reply != "OK" {
			return reply, err
		}
	}
	return roundTrip(conn, replies, args...)
}

func (s *Server) dial(deadline time.Time) (net.Conn, error) {
	dialer := &net.Dialer{Deadline: deadline}
	if s.tls != nil {
		return tls.DialWithDialer(dialer, "tcp", s.Addr(), s.tls)
	}
	return dialer.Dial("tcp", s.Addr())
}

func roundTrip(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(w, command.String()); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads one RESP2 reply and renders it.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("an empty line is no reply")
	}
	kind, text := line[0], line[1:]
	if kind == '+' || kind == '-' || kind == ':' {
		return text, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return "", fmt.Errorf("reply %q: %w", line, err)
	}
	switch {
	case n < 0:
		return "(nil)", nil
	case kind == '$':
		value := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, value)
		return string(value[:n]), err
	case kind == '*':
		items := make([]string, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(items, " ") + "]", nil
	}
	return "", fmt.Errorf("reply %q is not RESP2", line)
}
