package fenlock

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// queues let one caller at a time acquire a name by this Locker. The others
// wait in memory, first come first served, and cost the nodes nothing.
type queues struct {
	mu     sync.Mutex
	byName map[string]*queue
}

// queue is who acquires a name. The first one is asking the nodes.
type queue struct {
	waiters []*waiter
	why     error // what the nodes said last, nil if nothing yet

	few [2]*waiter // room for them
}

// enter appends a waiter to the queue of its name.
func (q *queues) enter(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byName == nil {
		q.byName = make(map[string]*queue)
	}
	in := q.byName[w.name]
	if in == nil {
		in = &w.own
		in.waiters = in.few[:0]
		q.byName[w.name] = in
	} else {
		w.first = make(chan struct{})
		w.arrived = w.locker.now()
	}
	in.waiters = append(in.waiters, w)
}

// leave takes a waiter out of the queue, and lets the next one ask.
func (q *queues) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.byName[w.name]
	i := slices.Index(in.waiters, w)
	in.waiters = slices.Delete(in.waiters, i, i+1)
	switch {
	case len(in.waiters) == 0:
		delete(q.byName, w.name)
	case i == 0:
		close(in.waiters[0].first)
	}
}

// tell tells the first of a queue why it waits, and those behind it who have
// not heard yet.
func (q *queues) tell(w *waiter, why error) {
	q.mu.Lock()
	in := q.byName[w.name]
	news := in.why == nil
	in.why = why
	var others []*waiter
	if news {
		others = slices.Clone(in.waiters[1:])
	}
	q.mu.Unlock()
	w.tell(why)
	for i, other := range others {
		other.tell(behind(why, i+1))
	}
}

// reason returns why a waiter waits, nil if the first of its queue has not heard
// of the nodes yet.
func (q *queues) reason(w *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.byName[w.name]
	return behind(in.why, slices.Index(in.waiters, w))
}

// behind is the reason of a waiter that has so many of its own process before it.
func behind(why error, more int) error {
	var held *HeldError
	if more == 0 || !errors.As(why, &held) {
		return why
	}
	further := *held
	further.Ahead += more
	return &further
}

// awaitFirst returns nil when the waiter is the first of its queue, and
// ErrClosed or ctx's error when that comes first.
func (w *waiter) awaitFirst(ctx context.Context) error {
	if w.first == nil {
		return nil
	}
	w.tell(w.locker.queues.reason(w))
	select {
	case <-w.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.locker.requests.closing:
		return ErrClosed
	}
}
