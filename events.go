package fenlock

import (
	"context"
	"sync"
	"time"

	"github.com/fenlock/fenlock/fence"
)

// events are what the Observer hears about locks: of all locks in order, one at a time.
// Those who have something to tell do not wait for it, since they may have the mutex of
// a lock.
type events struct {
	observer *Observer
	clock    func() time.Duration
	spawn    func(func()) // runs it in a goroutine, which Close waits for

	mu    sync.Mutex
	queue []func()
	busy  bool // a goroutine tells what is in the queue
}

// tell has f run after all that was told before.
func (e *events) tell(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = append(e.queue, f)
	if !e.busy {
		e.busy = true
		e.spawn(e.drain)
	}
}

func (e *events) drain() {
	for {
		e.mu.Lock()
		all := e.queue
		e.queue = nil
		if e.busy = len(all) > 0; !e.busy {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		for _, f := range all {
			f()
		}
	}
}

// watch begins to watch an acquisition that begins now; nil if nobody wants to hear of it.
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
	began  time.Duration // the call of Acquire, on the Locker's clock

	mu       sync.Mutex
	waited   bool
	decided  bool // the acquisition has ended
	token    fence.Token
	held     time.Duration // when it was acquired
	ended    time.Duration // when it was lost or released; 0 while it is held
	released ReleaseEvent
}

// waits notes that the caller waits, and tells of it the first time. Who is told why by
// others of its process may have the lock by then.
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
		e := WaitEvent{Name: w.name}
		w.events.tell(func() { tell(w.ctx, e) })
	}
}

// acquired tells of an acquisition that has ended.
func (w *watched) acquired(token fence.Token, err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token, w.held, w.decided = token, w.events.clock(), true
	if tell := w.events.observer.Acquire; tell != nil {
		e := AcquireEvent{Name: w.name, Token: token, Took: w.held - w.began, Waited: w.waited, Err: err}
		w.events.tell(func() { tell(w.ctx, e) })
	}
}

// extended tells of an extension.
func (w *watched) extended(left time.Duration, err error) {
	if w == nil {
		return
	}
	if tell := w.events.observer.Extend; tell != nil {
		w.mu.Lock()
		e := ExtendEvent{Name: w.name, Token: w.token, Left: left, Err: err}
		w.mu.Unlock()
		w.events.tell(func() { tell(w.ctx, e) })
	}
}

// end notes when the lock ended, and tells of a loss.
func (w *watched) end(lost error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == 0 {
		w.ended = w.events.clock()
	}
	if tell := w.events.observer.Lost; tell != nil && lost != nil {
		e := LostEvent{Name: w.name, Token: w.token, Held: w.ended - w.held, Err: lost}
		w.events.tell(func() { tell(w.ctx, e) })
	}
}

// releasing notes what is to be told of the first release when it has ended.
func (w *watched) releasing(left func() time.Duration) {
	if w == nil {
		return
	}
	validity, now := left(), w.events.clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.released.Name != "" {
		return
	}
	if w.ended != 0 {
		now = w.ended
	}
	w.released = ReleaseEvent{Name: w.name, Token: w.token, Held: now - w.held, Left: validity}
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
		w.events.tell(func() { tell(w.ctx, e) })
	}
}
