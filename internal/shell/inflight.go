package shell

import (
	"sync"
)

// inflight counts what is under way to the nodes, so that Close can wait for its
// end. The requests of a fanout count as one.
type inflight struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   []func() // called when nothing is under way, once closed
}

// begin counts one more. It is made even after close: cleaning up is always
// allowed, and the nodes refuse when they are closed.
func (i *inflight) begin() {
	i.mu.Lock()
	i.n++
	i.mu.Unlock()
}

func (i *inflight) end() {
	i.mu.Lock()
	i.n--
	idle := i.ready()
	i.mu.Unlock()
	for _, f := range idle {
		f()
	}
}

func (i *inflight) isClosed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.closed
}

// close reports whether it is the first one.
func (i *inflight) close() (first bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first = !i.closed
	i.closed = true
	return first
}

// whenIdle has f called, once closed, when nothing is under way.
func (i *inflight) whenIdle(f func()) {
	i.mu.Lock()
	i.idle = append(i.idle, f)
	idle := i.ready()
	i.mu.Unlock()
	for _, f := range idle {
		f()
	}
}

// ready takes the callbacks that are due.
func (i *inflight) ready() (due []func()) {
	if i.n == 0 && i.closed {
		due, i.idle = i.idle, nil
	}
	return due
}

func (i *inflight) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.n
}
