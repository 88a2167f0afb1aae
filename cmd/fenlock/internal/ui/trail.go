package ui

import (
	"sync"
	"time"
)

// maxTrail is how many events are shown, and keptTrail how many are kept: the page of a lock
// shows its own only.
const (
	maxTrail  = 200
	keptTrail = 2000
)

// trail has the last events. It is safe for concurrent use.
type trail struct {
	mu     sync.Mutex
	last   uint64  // the number of the newest
	events []event // oldest first
}

// add numbers events and keeps them.
func (t *trail) add(events ...event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		t.last++
		e.number = t.last
		if e.at.IsZero() {
			e.at = time.Now()
		}
		t.events = append(t.events, e)
	}
	if more := len(t.events) - keptTrail; more > 0 {
		t.events = append([]event(nil), t.events[more:]...)
	}
}

// about returns the events after a number, oldest first, and the number of the newest: at most
// maxTrail of them. With a name, they are those of a lock and those of nodes.
func (t *trail) about(number uint64, name string) (events []event, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.events {
		if e.number > number && (name == "" || e.lock == name || e.lock == "") {
			events = append(events, e)
		}
	}
	events = events[max(len(events)-maxTrail, 0):]
	return events, t.last
}
