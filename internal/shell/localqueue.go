package shell

import (
	"maps"
	"slices"
	"sync"
)

// localQueues let one caller at a time acquire a name by this Client. The others
// wait in memory, first come first served, and cost the nodes nothing.
type localQueues struct {
	mu     sync.Mutex
	byName map[string]*localQueue
}

// localQueue is who acquires a name. The first one asks the nodes.
type localQueue struct {
	callers []caller
	why     *Failure // what the nodes said last, nil if nothing yet

	few [2]caller // room for them
}

// caller is one in a local queue. Its methods are called without any mutex.
type caller interface {
	promoted()         // it is the first now
	told(why *Failure) // why it waits
	closed()           // the Client is
}

// enter appends a caller to the queue of a name, and reports whether it is the
// first. Own is memory for the queue, if there is none.
func (q *localQueues) enter(c caller, name string, own *localQueue) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byName == nil {
		q.byName = make(map[string]*localQueue)
	}
	in := q.byName[name]
	if first = in == nil; first {
		in = own
		in.callers = in.few[:0]
		q.byName[name] = in
	}
	in.callers = append(in.callers, c)
	return first
}

// leave takes a caller out of the queue, and lets the next one ask.
func (q *localQueues) leave(c caller, name string) {
	q.mu.Lock()
	in := q.byName[name]
	i := slices.Index(in.callers, c)
	in.callers = slices.Delete(in.callers, i, i+1)
	var next caller
	switch {
	case len(in.callers) == 0:
		delete(q.byName, name)
	case i == 0:
		next = in.callers[0]
	}
	q.mu.Unlock()
	if next != nil {
		next.promoted()
	}
}

// tell tells the first of a queue why it waits, and those behind it who have
// not heard yet.
func (q *localQueues) tell(c caller, name string, why *Failure) {
	q.mu.Lock()
	in := q.byName[name]
	if in == nil || in.callers[0] != c { // it has ended meanwhile
		q.mu.Unlock()
		return
	}
	news := in.why == nil
	in.why = why
	var others []caller
	if news {
		others = slices.Clone(in.callers[1:])
	}
	q.mu.Unlock()
	c.told(why)
	for i, other := range others {
		other.told(why.behind(i + 1))
	}
}

// reason returns why a caller waits, nil if the first of its queue has not heard
// of the nodes yet.
func (q *localQueues) reason(c caller, name string) *Failure {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := q.byName[name]
	if in == nil {
		return nil // it has left
	}
	return in.why.behind(slices.Index(in.callers, c))
}

// close tells all callers that the Client is closed, in an order that a simulated run
// repeats.
func (q *localQueues) close() {
	q.mu.Lock()
	var all []caller
	for _, name := range slices.Sorted(maps.Keys(q.byName)) {
		all = append(all, q.byName[name].callers...)
	}
	q.mu.Unlock()
	for _, c := range all {
		c.closed()
	}
}
