package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"
)

// Lanes carries out calls in batches, a few batches at once. What comes while all lanes are busy
// waits, and goes together. It is safe for concurrent use.
type Lanes[C any] struct {
	Life *Lifetime
	// Do carries out a batch, and notes in each call what came of it. It returns soon after ctx is
	// done. That has the deadline of the most patient caller, and is done when no caller waits.
	Do func(ctx context.Context, batch []C)
	// Fits reports whether a call can go with others; nil: each can.
	Fits    func(batch []C, c C) bool
	Most    int           // how many batches are under way at once
	Timeout time.Duration // bounds a batch, whatever its callers have patience for
	Keep    bool          // a batch goes on when no caller waits any more

	mu    sync.Mutex
	busy  int
	queue []*waiting[C]
}

// waiting is a caller.
type waiting[C any] struct {
	call C
	ctx  context.Context
	in   *batch // nil: it has not begun
	done chan struct{}
}

type batch struct {
	ctx    context.Context
	cancel context.CancelFunc
	left   int // callers that wait
}

// Join has a call carried out, in a batch that begins after that, and waits for it. An error says
// that the call has nothing to tell: nothing was done if it matches node.ErrNotSent, otherwise that
// is not known.
func (l *Lanes[C]) Join(ctx context.Context, c C) error {
	if err := ctx.Err(); err != nil {
		return node.NotSent(err)
	}
	w := &waiting[C]{call: c, ctx: ctx, done: make(chan struct{})}
	l.mu.Lock()
	if l.busy < l.Most {
		if err := l.Life.Spawn(l.run); err != nil {
			l.mu.Unlock()
			return node.NotSent(err)
		}
		l.busy++
	}
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return l.leave(w)
	}
}

// leave takes off a caller whose time is over. The last one of a batch waits for what its end says.
func (l *Lanes[C]) leave(w *waiting[C]) error {
	l.mu.Lock()
	b := w.in
	if b == nil {
		l.queue = slices.DeleteFunc(l.queue, func(other *waiting[C]) bool { return other == w })
		l.mu.Unlock()
		return node.NotSent(w.ctx.Err())
	}
	b.left--
	last := b.left == 0 && !l.Keep
	l.mu.Unlock()
	if !last {
		return w.ctx.Err()
	}
	if until, _ := b.ctx.Deadline(); time.Now().Before(until) {
		b.cancel() // otherwise it ends by itself, and has the error of that
	}
	<-w.done
	return nil
}

// run is a lane, as long as there is something to do.
func (l *Lanes[C]) run() {
	for {
		b, in, calls := l.next()
		if b == nil {
			return
		}
		l.Do(b.ctx, calls)
		b.cancel()
		for _, w := range in {
			close(w.done)
		}
	}
}

// next begins a batch of what can go together, nil if nothing waits.
func (l *Lanes[C]) next() (b *batch, in []*waiting[C], calls []C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.busy--
		return nil, nil, nil
	}
	b = new(batch)
	now := time.Now()
	most, until := now.Add(l.Timeout), now
	l.queue = slices.DeleteFunc(l.queue, func(w *waiting[C]) bool {
		if len(in) > 0 && l.Fits != nil && !l.Fits(calls, w.call) {
			return false
		}
		in, calls, w.in = append(in, w), append(calls, w.call), b
		if deadline, is := w.ctx.Deadline(); !is || l.Keep || deadline.After(most) {
			until = most
		} else if deadline.After(until) {
			until = deadline
		}
		return true
	})
	b.left = len(in)
	b.ctx, b.cancel = context.WithDeadline(l.Life, until)
	return b, in, calls
}

// Waiting returns how many calls wait for a lane.
func (l *Lanes[C]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}
