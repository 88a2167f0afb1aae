package pgnode

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node/engine"
)

// workers are the goroutines that carry out requests. Each stays for the next request: a new
// goroutine pays for a stack that grows through the driver. There are at most as many as
// connections. What comes while all are busy is queued.
type workers struct {
	closing *engine.Lifetime

	mu     sync.Mutex
	most   int
	all    map[*worker]struct{}
	idle   []*worker // the last one was busy last
	queue  []job
	closed bool
}

// job is what a worker carries out.
type job interface {
	alone() bool                // it is carried out with no other
	carry(w *worker, all []job) // carries out several, of which it is the first
	tell(w *worker)             // what came of it
}

// idleTime is after how long an unused connection is closed, and an idle worker ends.
const idleTime = time.Minute

// newWorkers returns workers that end with a lifetime.
func newWorkers(closing *engine.Lifetime, most int) *workers {
	p := &workers{closing: closing, most: most, all: make(map[*worker]struct{})}
	context.AfterFunc(closing, p.close)
	return p
}

// add has a request carried out. The error is engine.ErrClosed, and the request never will be.
func (p *workers) add(f job) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; p.closed {
		return engine.ErrClosed
	} else if last >= 0 {
		w := p.idle[last]
		p.idle = p.idle[:last]
		w.next <- f
	} else if len(p.all) < p.most {
		w := newWorker(p.closing)
		if err := p.closing.Spawn(func() { p.run(w, f) }); err != nil {
			return err
		}
		p.all[w] = struct{}{}
	} else {
		p.queue = append(p.queue, f)
	}
	return nil
}

func (p *workers) run(w *worker, f job) {
	defer w.end()
	for batch := []job{f}; len(batch) > 0; {
		batch[0].carry(w, batch)
		next := p.queued(w)
		for _, f := range batch { // a caller that goes on at once meets an idle worker
			f.tell(w)
		}
		if batch = next; len(batch) > 0 {
			continue
		}
		w.rest.Reset(idleTime)
		select {
		case f = <-w.next: // nil when the node is closed
		case <-w.rest.C:
			f = p.leave(w)
		}
		if f != nil {
			batch = []job{f}
		}
	}
	w.rest.Stop()
}

// mostTogether is how many requests are sent in one write.
const mostTogether = 8

// queued returns what the queue has, to be sent together. If that is nothing, the worker is idle.
func (p *workers) queued(w *worker) (batch []job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	many := 0
	for many < min(len(p.queue), mostTogether) && (many == 0 || !p.queue[many].alone()) {
		if many++; p.queue[many-1].alone() {
			break
		}
	}
	switch {
	case many > 0:
		batch, p.queue = p.queue[:many:many], p.queue[many:]
	case p.closed:
		w.next <- nil
	default:
		p.idle = append(p.idle, w)
	}
	return batch
}

// leave ends a worker that had nothing to do, unless a request comes just then.
func (p *workers) leave(w *worker) job {
	p.mu.Lock()
	for i, other := range p.idle {
		if other == w {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			delete(p.all, w)
			p.mu.Unlock()
			return nil
		}
	}
	p.mu.Unlock()
	return <-w.next
}

// close ends what is under way. What is queued is carried out by the workers, which find that the
// node is closed.
func (p *workers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		w.next <- nil
	}
	p.idle = nil
	for w := range p.all {
		w.abort()
	}
}

// worker is one of them. What its request waits for ends at a limit, or when the node is closed.
type worker struct {
	closing *engine.Lifetime
	next    chan job
	rest    *time.Timer
	limit   *time.Timer

	mu   sync.Mutex
	f    job       // nil: no request is under way. The first of several.
	ends time.Time // of f
	conn net.Conn  // what is read from
	life context.Context
	end  context.CancelFunc
}

// aLongTimeAgo is a deadline that ends reads and writes at once.
var aLongTimeAgo = time.Unix(1, 0)

func newWorker(closing *engine.Lifetime) *worker {
	w := &worker{closing: closing, next: make(chan job, 1), rest: time.NewTimer(idleTime)}
	w.life, w.end = context.WithCancel(closing)
	w.limit = time.AfterFunc(idleTime, w.abort)
	w.limit.Stop()
	return w
}

// begin begins a request, and returns a context that ends at a limit.
func (w *worker) begin(f job, limit time.Time) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil { // the limit of an earlier request
		w.life, w.end = context.WithCancel(w.closing)
	}
	w.f, w.ends = f, limit
	w.limit.Reset(time.Until(limit))
	return w.life
}

// until sets another limit, if the request is still under way.
func (w *worker) until(f job, limit time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == f {
		w.ends = limit
		w.limit.Reset(time.Until(limit))
	}
}

// reads has reads and writes of a connection end at the limit. Nil: of none. It reports whether the
// limit has come.
func (w *worker) reads(conn net.Conn) (ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn, ended = conn, w.life.Err() != nil
	if conn != nil && ended {
		conn.SetDeadline(aLongTimeAgo)
	}
	return ended
}

// over ends the request.
func (w *worker) over() {
	w.limit.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.f = nil
}

// abort ends what the request waits for. The timer of an earlier request may call it late.
func (w *worker) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.Err() == nil && (w.f == nil || time.Now().Before(w.ends)) {
		return
	}
	w.end()
	if w.conn != nil {
		w.conn.SetDeadline(aLongTimeAgo)
	}
}
