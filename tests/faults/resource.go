//go:build linux

package main

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

// resource is what the locks protect: a number for each name, served to the
// client processes over a loopback port. A line is asked and a line answered:
//
//	read NAME CLIENT OP TOKEN              -> value N | stale
//	write NAME CLIENT OP TOKEN BASE VALUE  -> done | stale
type resource struct {
	guarded  bool // with fence.Guard; without, every token passes
	guard    fence.Guard
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex // guards the rest
	values map[string]int
	events []history.Event
	conns  map[net.Conn]bool
	closed bool
}

func newResource(guarded bool) (*resource, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &resource{guarded: guarded, listener: listener, values: make(map[string]int), conns: make(map[net.Conn]bool)}
	r.serving.Go(r.serve)
	return r, nil
}

func (r *resource) addr() string { return r.listener.Addr().String() }

// close ends the service, and returns what was done in the order in which it
// was.
func (r *resource) close() []history.Event {
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

// used reports whether anybody has used it.
func (r *resource) used() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events) > 0
}

func (r *resource) serve() {
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

func (r *resource) answer(line string) string {
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

func (r *resource) do(e history.Event) string {
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
func (r *resource) note(e history.Event) {
	e.At = int64(clock.Now())
	r.events = append(r.events, e)
}

// errStale is the resource's answer to a token that is too old. After any other
// error it is not known whether a write was done.
var errStale = errors.New("stale token")

// resourceClient is one client's way to the resource.
type resourceClient struct {
	addr  string
	conn  net.Conn
	input *bufio.Reader
}

// resourceTimeout is generous: nothing fails between the clients and the
// resource, but clients are paused.
const resourceTimeout = 2 * time.Second

// use says who uses the resource.
type use struct {
	name       string
	client, op int
	token      fence.Token // 0 for none
}

func (u use) String() string {
	return fmt.Sprintf("%s %d %d %d", u.name, u.client, u.op, uint64(u.token))
}

func (c *resourceClient) read(u use) (value int, err error) {
	answer, err := c.ask("read %v\n", u)
	if err == nil {
		_, err = fmt.Sscanf(answer, "value %d", &value)
	}
	return value, err
}

func (c *resourceClient) write(u use, base, value int) error {
	answer, err := c.ask("write %v %d %d\n", u, base, value)
	if err == nil && answer != "done" {
		err = errors.New(answer)
	}
	return err
}

// ask gives the connection up after an error: an answer that comes late must
// not be taken for the next one.
func (c *resourceClient) ask(format string, args ...any) (answer string, err error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, resourceTimeout)
		if err != nil {
			return "", err
		}
		c.conn, c.input = conn, bufio.NewReader(conn)
	}
	c.conn.SetDeadline(time.Now().Add(resourceTimeout))
	if _, err = fmt.Fprintf(c.conn, format, args...); err == nil {
		answer, err = c.input.ReadString('\n')
	}
	if err != nil {
		c.close()
		return "", err
	}
	answer = strings.TrimSuffix(answer, "\n")
	if answer == "stale" {
		return "", errStale
	}
	return answer, nil
}

func (c *resourceClient) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}
