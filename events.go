package fenlock

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/shell"
)

// events are what the Observer hears about locks: of all locks in order, one at a time. Code that
// has something to tell has the mutex of a lock, so that it is told later. The caller whom it is
// about tells it, because its goroutine runs anyway, or a goroutine of its own does.
type events struct {
	observer *Observer
	clock    func() time.Duration // a cheap one: nothing is decided by it
	running  *running             // counts what is to be told: Close waits for it

	mu    sync.Mutex
	queue []func()
	next  int  // of the queue: what is before it was told
	busy  bool // a goroutine tells
}

// later has f run after all that was told before, by the next caller of drain.
func (e *events) later(f func()) {
	e.running.add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.next > 0 && len(e.queue) == cap(e.queue) { // it need not grow
		n := copy(e.queue, e.queue[e.next:])
		clear(e.queue[n:])
		e.queue, e.next = e.queue[:n], 0
	}
	e.queue = append(e.queue, f)
}

// tell is for what no caller will drain.
func (e *events) tell(f func()) {
	e.later(f)
	go e.drain()
}

// drain tells what is in the queue, unless another goroutine does. What comes meanwhile is left to
// a goroutine: a caller has other things to do than to tell of all others.
func (e *events) drain() {
	e.mu.Lock()
	n := len(e.queue) - e.next
	if e.busy || n == 0 {
		e.mu.Unlock()
		return
	}
	e.busy = true
	e.mu.Unlock()
	defer e.drained() // also if the observer panics, which the caller may recover from
	for range n {
		e.tellNext()
	}
}

func (e *events) tellNext() {
	defer e.running.add(-1)
	e.mu.Lock()
	f := e.queue[e.next]
	e.queue[e.next] = nil
	if e.next++; e.next == len(e.queue) {
		e.queue, e.next = e.queue[:0], 0
	}
	e.mu.Unlock()
	f()
}

func (e *events) drained() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.busy = false
	if len(e.queue) > 0 {
		go e.drain()
	}
}

// watch begins to watch an acquisition that begins now; nil if no function of the Observer wants to
// hear of it.
func (e *events) watch(ctx context.Context, name string) *watched {
	o := e.observer
	if o.Acquire == nil && o.Wait == nil && o.Extend == nil && o.Lost == nil && o.Release == nil {
		return nil
	}
	return &watched{events: e, ctx: ctx, name: name, began: e.clock()}
}

// watched is a lock whose events are told. Its methods may be called on nil, and do
// nothing then.
type watched struct {
	events *events
	ctx    context.Context // of Acquire
	name   string
	began  time.Duration // the call of Acquire

	mu       sync.Mutex
	waited   bool
	decided  bool // the acquisition has ended
	token    fence.Token
	held     time.Duration // when it was acquired
	given    bool          // and not extended yet
	released ReleaseEvent
}

// waits notes that the caller waits, and tells of it the first time. A caller that is told the
// reason by others of its process may have the lock by then.
func (w *watched) waits() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waited || w.decided {
		return
	}
	w.waited = true
	if tell := w.events.observer.Wait; tell != nil {
		w.events.tell(func() { tell(w.ctx, w.name) })
	}
}

// acquired tells of an acquisition that has ended.
func (w *watched) acquired(token fence.Token, given bool, err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token, w.given, w.held, w.decided = token, given, w.events.clock(), true
	if tell := w.events.observer.Acquire; tell != nil {
		e := AcquireEvent{Name: w.name, Token: token, Took: w.held - w.began, Waited: w.waited, Err: err}
		w.events.later(func() { tell(w.ctx, e) })
	}
}

// drain tells what the caller of Acquire or Release is about to hear itself.
func (w *watched) drain() {
	if w != nil {
		w.events.drain()
	}
}

// extended tells of an extension.
func (w *watched) extended(left time.Duration, err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given = w.given && err != nil
	if tell := w.events.observer.Extend; tell != nil {
		e := ExtendEvent{Name: w.name, Token: w.token, Left: left, Err: err}
		w.events.tell(func() { tell(w.ctx, e) })
	}
}

// end notes what is to be told of the release when it has ended, and tells of a loss.
func (w *watched) end(lost error, left time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released = ReleaseEvent{Name: w.name, Token: w.token, Held: w.events.clock() - w.held, Left: left, Given: w.given}
	if tell := w.events.observer.Lost; tell != nil && lost != nil {
		e := LostEvent{Name: w.name, Token: w.token, Held: w.released.Held, Err: lost}
		w.events.tell(func() { tell(w.ctx, e) })
	}
}

// freed tells of a release that has ended.
func (w *watched) freed(err error) {
	if w == nil {
		return
	}
	if tell := w.events.observer.Release; tell != nil {
		w.mu.Lock()
		e := w.released
		w.mu.Unlock()
		e.Err = err
		w.events.later(func() { tell(w.ctx, e) })
	}
}

// observed calls what may call an observer. If that panics, which its caller may recover from, the
// cleaning up is left to a goroutine.
func observed(cleanUp, f func()) {
	returned := false
	defer func() {
		if !returned {
			go cleanUp()
		}
	}()
	f()
	returned = true
}

// healthChanged implements shell.Config.HealthChanged: it tells the Logger and the Observer how a
// node does, at once.
func healthChanged(c *Config, h shell.HealthChange) {
	change := NodeChange{Node: c.Nodes[h.Peer].String(), State: states[h.Now], Err: h.Why}
	if change.Err == nil {
		c.Logger.Info("fenlock: a node "+change.State.String()+" again", "node", change.Node, "state", change.State.String())
	} else {
		c.Logger.Warn("fenlock: a node "+change.State.String(), "node", change.Node, "state", change.State.String(), "error",
			change.reason())
	}
	if c.Observer.Node != nil {
		c.Observer.Node(change)
	}
}

// states are the shell's, in words of the API.
var states = [...]NodeState{shell.Works: NodeWorks, shell.Down: NodeDown, shell.Late: NodeLate, shell.Out: NodeOut,
	shell.Misconfigured: NodeMisconfigured}
