//go:build linux

package steps

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Server is one of those whose steps are recorded.
type Server struct {
	Addr           func() string // now: another one can take its place
	User, Password string        // of one that may do all
	// Ask sends a command past all faults.
	Ask func(timeout time.Duration, args ...string) (string, error)
	// Cut keeps all clients away until lift is called: nothing is to happen unseen. Nil: there is
	// none.
	Cut func() (lift func())
}

// Recorder listens to servers. Safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	nodes   []*record
	number  int   // of snapshots
	problem error // the last one, with a connection
	unread  error // a line that is not understood
	end     context.CancelFunc
	work    sync.WaitGroup
}

// record is what one server has told, in its order.
type record struct {
	events []event
	conn   net.Conn
}

// event is a line, or what a server had when its lines began.
type event struct {
	at    time.Duration // when it was heard, since the recorder began
	line  line
	store *store // not nil: it is a snapshot, taken by this line
}

// Record begins to listen. It returns when all servers are heard.
func Record(ctx context.Context, servers []Server) (*Recorder, error) {
	ctx, end := context.WithCancel(ctx)
	r := &Recorder{end: end}
	began := time.Now()
	heard := make(chan error, len(servers))
	for range servers {
		r.nodes = append(r.nodes, &record{})
	}
	for i, s := range servers {
		r.work.Go(func() { r.listen(ctx, began, r.nodes[i], s, sync.OnceFunc(func() { heard <- nil })) })
	}
	for range servers {
		select {
		case <-heard:
		case <-time.After(30 * time.Second):
			r.Stop()
			return nil, fmt.Errorf("a server cannot be monitored: %w", r.problem)
		}
	}
	return r, nil
}

// Stop ends the recording.
func (r *Recorder) Stop() {
	r.end()
	r.mu.Lock()
	for _, n := range r.nodes {
		if n.conn != nil {
			n.conn.Close()
		}
	}
	r.mu.Unlock()
	r.work.Wait()
}

func (r *Recorder) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = err
}

// listen hears a server until ctx ends, from one connection to the next.
func (r *Recorder) listen(ctx context.Context, began time.Time, n *record, s Server, heard func()) {
	lift := func() {}
	defer func() { lift() }()
	for ctx.Err() == nil {
		conn, lines, err := monitor(s.Addr(), s.User, s.Password, 2*time.Second)
		if err != nil {
			r.failed(err)
			time.Sleep(2 * time.Millisecond)
			continue
		}
		r.mu.Lock()
		n.conn = conn
		r.number++
		number := fmt.Sprint(r.number)
		r.mu.Unlock()
		if ctx.Err() != nil {
			conn.Close()
			return
		}
		reply, err := s.Ask(2*time.Second, "EVAL", dump, "0", number)
		snapshot, parsed := parseStore(reply)
		if err == nil {
			err = parsed
		}
		if err == nil {
			lift()
			lift = func() {}
			r.hear(began, n, lines, number, snapshot, heard)
		} else {
			r.failed(err)
		}
		conn.Close()
		if s.Cut != nil && ctx.Err() == nil && err == nil {
			lift = s.Cut()
		}
	}
}

// hear reads lines until the connection ends. They begin with that of the snapshot.
func (r *Recorder) hear(began time.Time, n *record, lines *bufio.Reader, number string, snapshot *store, heard func()) {
	known := false
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		l, err := parseLine(strings.TrimSuffix(text, "\r\n"))
		if err != nil {
			r.mu.Lock()
			r.unread = err
			r.mu.Unlock()
			l = line{args: []string{"?", err.Error()}}
		}
		e := event{at: time.Since(began), line: l}
		if len(l.args) == 4 && l.args[0] == "EVAL" && l.args[1] == dump {
			if l.args[3] != number {
				continue
			}
			e.store, known = snapshot, true
		}
		if !known || len(l.args) > 1 && l.args[0] == "EVAL" && l.args[1] == dump && e.store == nil {
			continue
		}
		r.mu.Lock()
		n.events = append(n.events, e)
		r.mu.Unlock()
		if e.store != nil {
			heard()
		}
	}
}
