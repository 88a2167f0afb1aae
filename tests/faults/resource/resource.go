package resource

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/clock"
	"github.com/fenlock/fenlock/tests/history"
)

// Server serves the resource. A line is asked and a line answered:
//
//	read NAME CLIENT OP TOKEN              -> value N | stale
//	write NAME CLIENT OP TOKEN BASE VALUE  -> done | stale
type Server struct {
	guarded  bool
	guard    fence.Guard
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex // guards the rest
	values map[string]int
	events []history.Event
	conns  map[net.Conn]bool
	closed bool
}

// New serves a resource until it is closed. Without a guard every token passes.
func New(guarded bool) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Server{guarded: guarded, listener: listener, values: make(map[string]int), conns: make(map[net.Conn]bool)}
	r.serving.Go(r.serve)
	return r, nil
}

// Addr returns the address for a Client.
func (r *Server) Addr() string { return r.listener.Addr().String() }

// Close ends the service, and returns what was done in the order in which it was.
func (r *Server) Close() []history.Event {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for conn := range r.conns {
		conn.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
	return r.events
}

// Used reports whether anybody has used it.
func (r *Server) Used() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events) > 0
}

func (r *Server) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.closed {
			conn.Close()
		}
		r.conns[conn] = true
		r.mu.Unlock()
		r.serving.Go(func() {
			defer func() {
				conn.Close()
				r.mu.Lock()
				delete(r.conns, conn)
				r.mu.Unlock()
			}()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if _, err := fmt.Fprintln(conn, r.answer(lines.Text())); err != nil {
					return
				}
			}
		})
	}
}

func (r *Server) answer(line string) string {
	var e history.Event
	verb, rest, _ := strings.Cut(line, " ")
	var err error
	switch verb {
	case "read":
		e.Kind = history.ReadValue
		_, err = fmt.Sscanf(rest, "%s %d %d %d", &e.Name, &e.Client, &e.Op, &e.Token)
	case "write":
		e.Kind = history.Wrote
		_, err = fmt.Sscanf(rest, "%s %d %d %d %d %d", &e.Name, &e.Client, &e.Op, &e.Token, &e.Base, &e.Value)
	default:
		err = errors.New("neither read nor write")
	}
	if err != nil {
		return fmt.Sprintf("%q: %v", line, err)
	}
	if !r.guarded {
		return r.do(e)
	}
	var answer string
	err = r.guard.Do(context.Background(), e.Name, fence.Token(e.Token), func() error {
		answer = r.do(e)
		return nil
	})
	switch {
	case errors.Is(err, fence.ErrStale):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.note(history.Event{Kind: history.Refused, Name: e.Name, Client: e.Client, Op: e.Op, Token: e.Token})
		return "stale"
	case err != nil:
		return err.Error()
	}
	return answer
}

func (r *Server) do(e history.Event) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == history.ReadValue {
		e.Value = r.values[e.Name]
		r.note(e)
		return fmt.Sprint("value ", e.Value)
	}
	r.values[e.Name] = e.Value
	r.note(e)
	return "done"
}

// note writes an event down. Called with mu held, so that the times are in the
// order of the events.
func (r *Server) note(e history.Event) {
	e.At = int64(clock.Now())
	r.events = append(r.events, e)
}

// ErrStale is the resource's answer to a token that is too old. After any other
// error it is not known whether a write was done.
var ErrStale = errors.New("stale token")

// Client is one client's way to the resource. It connects when it has to.
type Client struct {
	Addr  string
	conn  net.Conn
	input *bufio.Reader
}

// timeout is generous: nothing fails between the clients and the resource, but
// clients are paused.
const timeout = 2 * time.Second

// Use says who uses the resource.
type Use struct {
	Name       string
	Client, Op int
	Token      fence.Token // 0 for none
}

func (u Use) String() string {
	return fmt.Sprintf("%s %d %d %d", u.Name, u.Client, u.Op, uint64(u.Token))
}

// Read returns the value.
func (c *Client) Read(u Use) (value int, err error) {
	answer, err := c.ask("read %v\n", u)
	if err == nil {
		_, err = fmt.Sscanf(answer, "value %d", &value)
	}
	return value, err
}

// Write changes the value, which was base when it was read.
func (c *Client) Write(u Use, base, value int) error {
	answer, err := c.ask("write %v %d %d\n", u, base, value)
	if err == nil && answer != "done" {
		err = errors.New(answer)
	}
	return err
}

// ask gives the connection up after an error: an answer that comes late must
// not be taken for the next one.
func (c *Client) ask(format string, args ...any) (answer string, err error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.Addr, timeout)
		if err != nil {
			return "", err
		}
		c.conn, c.input = conn, bufio.NewReader(conn)
	}
	c.conn.SetDeadline(time.Now().Add(timeout))
	if _, err = fmt.Fprintf(c.conn, format, args...); err == nil {
		answer, err = c.input.ReadString('\n')
	}
	if err != nil {
		c.Close()
		return "", err
	}
	answer = strings.TrimSuffix(answer, "\n")
	if answer == "stale" {
		return "", ErrStale
	}
	return answer, nil
}

// Close closes the connection.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
