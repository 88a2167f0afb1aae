package shell

import (
	"sync"
	"time"
)

// deadlines end what has not been answered in time. They are in the order of their
// times, which mostly is that in which they come, so one timer and a list do. A
// timer for each request would cost as much as half of what it bounds.
type deadlines struct {
	env Env

	mu          sync.Mutex // guards the rest, and the list's links
	first, last *deadline
	timer       Timer
	at          time.Duration // when the timer goes off; 0 if it does not
}

// deadline is when something expires. It is a part of what it bounds, and must not
// be copied.
type deadline struct {
	of         expirer // nil: not in the list
	at         time.Duration
	prev, next *deadline
}

// expirer is what has a deadline. Expire is called without any mutex held.
type expirer interface{ expire() }

// add has of expire at a time.
func (d *deadlines) add(e *deadline, of expirer, now, at time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.of, e.at = of, at
	before := d.last
	for before != nil && before.at > at {
		before = before.prev
	}
	e.prev = before
	if before == nil {
		e.next, d.first = d.first, e
	} else {
		e.next, before.next = before.next, e
	}
	if e.next == nil {
		d.last = e
	} else {
		e.next.prev = e
	}
	d.rest(now)
}

// remove has it not expire any more. The timer may go off once in vain.
func (d *deadlines) remove(e *deadline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.of != nil {
		d.unlink(e)
	}
}

// expireAll has all of them expire now.
func (d *deadlines) expireAll() {
	var over []expirer
	d.mu.Lock()
	for d.first != nil {
		over = append(over, d.first.of)
		d.unlink(d.first)
	}
	d.mu.Unlock()
	for _, e := range over {
		e.expire()
	}
}

func (d *deadlines) unlink(e *deadline) {
	if e.prev == nil {
		d.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		d.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.of, e.prev, e.next = nil, nil, nil
}

// rest sets the timer, unless it goes off early enough.
func (d *deadlines) rest(now time.Duration) {
	if d.first == nil || d.at != 0 && d.at <= d.first.at {
		return
	}
	d.at = d.first.at
	if left := max(d.at-now, 0); d.timer == nil {
		d.timer = d.env.AfterFunc(left, d.wake)
	} else {
		d.timer.Reset(left)
	}
}

// wake is the timer's.
func (d *deadlines) wake() {
	now := d.env.Now()
	var over []expirer
	d.mu.Lock()
	for d.first != nil && d.first.at <= now {
		over = append(over, d.first.of)
		d.unlink(d.first)
	}
	d.at = 0
	d.rest(now)
	d.mu.Unlock()
	for _, e := range over {
		e.expire()
	}
}
