package fenlock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// lines are a Locker's waiters in the lines of its nodes. It begins to listen for
// calls when somebody has to wait for the first time.
type lines struct {
	locker *Locker
	client string
	nodes  []node.Queuer // nil where a node keeps no lines

	mu        sync.Mutex         // guards the rest
	waiters   map[uint64]*waiter // by number
	last      uint64             // number of the newest waiter
	time      core.NodeTime
	hears     []bool        // by node: it can call waiters, as far as is known
	listening chan struct{} // closed once every node has been tried
}

// maxStamp is the largest stamp that a node takes.
const maxStamp = 1 << 53

// newLines returns nil if no node keeps lines.
func newLines(l *Locker) *lines {
	n := len(l.config.Nodes)
	s := &lines{locker: l, nodes: make([]node.Queuer, n), waiters: make(map[uint64]*waiter), hears: make([]bool, n)}
	some := false
	for i, member := range l.config.Nodes {
		if q, ok := member.Engine().(node.Queuer); ok {
			s.nodes[i], some = q, true
		}
	}
	if !some {
		return nil
	}
	id := newID()
	s.client = string(id[:])
	return s
}

// listen makes the Locker's waiters reachable. It returns when every node has
// confirmed that, or could not, or when ctx is done. Nodes that come later say
// so by an event.
func (s *lines) listen(ctx context.Context) {
	s.mu.Lock()
	done := s.listening
	if done == nil {
		done = make(chan struct{})
		s.listening = done
		s.listenAll(done)
	}
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// listenAll begins to listen on every node, and closes done when all of them have
// answered, or have had the time to.
func (s *lines) listenAll(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.locker.config.NodeTimeout)
	var all sync.WaitGroup
	for i, n := range s.nodes {
		if n == nil {
			continue
		}
		all.Add(1)
		s.locker.requests.begin(1)
		go func() {
			defer s.locker.requests.end()
			defer all.Done()
			err := n.Listen(ctx, s.client, func(waiter string) { s.event(i, waiter) })
			if err == nil {
				s.mu.Lock()
				s.hears[i] = true
				s.mu.Unlock()
			}
			if errors.Is(err, ErrMisconfigured) {
				s.locker.config.Logger.Warn("fenlock: a node cannot call waiters, so they poll it", "node", s.locker.config.Nodes[i].String(), "error", err)
			}
		}()
	}
	go func() {
		all.Wait()
		cancel()
	}()
	context.AfterFunc(ctx, func() { close(done) })
}

// event is what a node says.
func (s *lines) event(n int, id string) {
	now := s.locker.now()
	if id == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hears[n] = true
		for _, w := range s.waiters {
			w.missed(now)
		}
		return
	}
	text, ok := strings.CutPrefix(id, s.client+":")
	number, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return
	}
	s.mu.Lock()
	w := s.waiters[number]
	s.mu.Unlock()
	// Otherwise it has the lock already, and gives up with it what is kept for it
	// on a node that was not needed.
	if w != nil && !w.called(n, now) {
		s.leave(n, w, whatever) // it had gone, and the node has not heard of that
	}
}

// enlist gives a waiter its place, if it has none, and reports whether it has
// one. It has not before the nodes' time is known.
func (s *lines) enlist(w *waiter) bool {
	if w.inLine() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp, known := s.time.At(w.arrived)
	if !known {
		return false
	}
	s.last++
	s.waiters[s.last] = w
	w.number = s.last
	w.mu.Lock()
	defer w.mu.Unlock()
	var id [node.IDLength + 21]byte
	waiter := strconv.AppendUint(append(append(id[:0], s.client...), ':'), w.number, 10)
	w.place = node.Place{Waiter: string(waiter), Stamp: min(max(stamp.Microseconds(), 1), maxStamp)}
	return true
}

// ready reports whether waiters are reachable, so that they can stand in line
// from their first attempt on.
func (s *lines) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening == nil {
		return false
	}
	select {
	case <-s.listening:
		return true
	default:
		return false
	}
}

// audible reports whether enough nodes can call for a waiter to rely on it.
func (s *lines) audible() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, hears := range s.hears {
		if hears {
			n++
		}
	}
	return n >= core.Quorum(len(s.nodes))
}

// observe learns a node's time from an answer.
func (s *lines) observe(n int, sent, received, clock time.Duration) {
	if s.nodes[n] == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time.Observe(n, sent, received, clock)
}

// forget ends what a waiter is told.
func (s *lines) forget(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiters, w.number)
}

// leaveAll takes a waiter that gave up out of the lines, and forgets it when all
// nodes have answered. One that has not may call it until its line is forgotten.
func (s *lines) leaveAll(w *waiter) {
	var left atomic.Int32
	var failed atomic.Bool
	left.Store(int32(len(s.nodes)))
	done := func(err error) {
		if err != nil {
			failed.Store(true)
		}
		switch {
		case left.Add(-1) > 0:
		case failed.Load():
			time.AfterFunc(rule.QueueExpiry, func() { s.forget(w) })
		default:
			s.forget(w)
		}
	}
	for i := range s.nodes {
		s.leave(i, w, done)
	}
}

// leave takes a waiter out of the line on one node, and gives up what is kept
// for it there, in the background. A node that does not hear of it calls the
// waiter when its turn comes, see event, or finds nobody to call.
func (s *lines) leave(i int, w *waiter, done func(error)) {
	if s.nodes[i] == nil {
		done(nil)
		return
	}
	s.locker.requests.begin(1)
	go func() {
		defer s.locker.requests.end()
		ctx, cancel := context.WithTimeout(context.Background(), s.locker.config.NodeTimeout)
		defer cancel()
		_, err := s.locker.config.Nodes[i].Do(ctx, node.Request{Op: node.Release, Name: w.name, Place: w.request(core.Release)})
		done(err)
	}()
}

func whatever(error) {}
