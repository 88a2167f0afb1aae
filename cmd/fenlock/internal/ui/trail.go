package ui

import (
	"sync"
	"time"
)

// maxTrail is how many events are kept, and shown.
const maxTrail = 200

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
	if more := len(t.events) - maxTrail; more > 0 {
		t.events = append([]event(nil), t.events[more:]...)
	}
}

// after returns the events after a number, oldest first, and the number of the newest.
func (t *trail) after(number uint64) (events []event, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.events {
		if e.number > number {
			events = append(events, e)
		}
	}
	return events, t.last
}
