package shell

import "sync"

// inflight counts what is under way to the nodes, so that Close can wait for its
// end. The requests of a fanout count as one.
type inflight struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   []func() // called when nothing is under way, once closed
}

// add counts n more, and has those of idle called, once closed, when nothing is under
// way. What begins is counted even after close: cleaning up is always allowed, and the
// nodes refuse when they are closed.
func (i *inflight) add(n int, idle ...func()) {
	i.mu.Lock()
	i.n += n
	i.idle = append(i.idle, idle...)
	var due []func()
	if i.n == 0 && i.closed {
		due, i.idle = i.idle, nil
	}
	i.mu.Unlock()
	for _, f := range due {
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

func (i *inflight) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.n
}
