package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/internal/core"
	contract "github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// This file is what the shell does for one that waits (Acquire in locker.go,
// wait.go, queue.go and lines.go of package fenlock).

type place = contract.Place

// acquisition is one call of Acquire, or of TryAcquire if it has no waiter.
type acquisition struct {
	c      *client
	name   int
	came   time.Duration // true time
	w      *waiter
	lock   *lock // the attempt under way
	tries  int
	over   bool // it has returned
	gaveUp bool
	result func(*lock) // nil: no lock
}

type waiter struct {
	a       *acquisition
	arrived time.Duration
	number  uint64
	place   place
	waiting bool
	turn    core.Turn
	asleep  bool
	latest  time.Duration
	alarm   int // the number of the timer that counts
}

// acquire begins an acquisition. The result is told once.
func (c *client) acquire(name int, wait bool, result func(*lock)) *acquisition {
	a := &acquisition{c: c, name: name, came: c.w.now, result: result}
	if wait {
		a.w = &waiter{a: a, waiting: true, turn: core.NewTurn(len(c.w.nodes))}
		c.queues[name] = append(c.queues[name], a)
		if len(c.queues[name]) > 1 {
			a.w.arrived = c.now()
			return a
		}
	}
	a.try()
	return a
}

// leaveQueue lets the next one of the process ask.
func (a *acquisition) leaveQueue() {
	c, queue := a.c, a.c.queues[a.name]
	i := slices.Index(queue, a)
	queue = slices.Delete(queue, i, i+1)
	c.queues[a.name] = queue
	if i == 0 && len(queue) > 0 {
		c.soon(queue[0].try)
	}
}

// queued reports whether it has to wait for others of its process.
func (a *acquisition) queued() bool { return a.w != nil && a.c.queues[a.name][0] != a }

func (a *acquisition) try() {
	if a.over {
		return
	}
	if a.gaveUp {
		a.end(nil)
		return
	}
	if a.w != nil {
		a.w.begin(a.c.now())
	}
	a.tries++
	l, action := a.c.newLock(a.name, a.w)
	a.lock = l
	l.onDecided = func() { a.outcome(l) }
	l.send(action)
}

// cancel is the end of the caller's context, at whatever point.
func (a *acquisition) cancel() {
	if a.over || a.gaveUp {
		return
	}
	a.gaveUp = true
	if a.lock != nil && !a.lock.decided {
		action := a.c.w.rules.cancel(a.lock)
		a.lock.settle(a.c.now())
		a.lock.send(action)
		return
	}
	if a.w != nil && (a.w.asleep || a.queued()) {
		a.end(nil)
	}
}

func (a *acquisition) outcome(l *lock) {
	switch {
	case !l.failed:
		a.end(l)
	case a.w == nil || a.gaveUp:
		a.end(nil)
	default:
		a.w.wait(l.refusals)
	}
}

func (a *acquisition) end(l *lock) {
	a.over = true
	a.c.w.check("cost", a.tooOften())
	if w := a.w; w != nil {
		w.waiting, w.asleep = false, false
		w.alarm++
		a.leaveQueue()
		if w.inLine() {
			if l == nil {
				a.c.w.rules.leave(&a.c.lines, w)
			} else {
				a.c.w.rules.forget(&a.c.lines, w)
			}
		}
	}
	a.result(l)
}

func (w *waiter) request(op core.Op) place {
	if w == nil || op != core.Acquire && op != core.Release {
		return place{}
	}
	if op == core.Release && !w.waiting {
		return place{Waiter: w.place.Waiter}
	}
	return w.place
}

func (w *waiter) begin(now time.Duration) {
	if w.arrived == 0 {
		w.arrived = now
	}
	w.asleep = false
	w.alarm++
	if s := &w.a.c.lines; s.listening == listened {
		s.enlist(w)
	}
	w.turn.Begin()
}

func (w *waiter) left(told place) bool { return w != nil && told.Stamp != 0 && !w.waiting }
func (w *waiter) inLine() bool         { return w.place.Waiter != "" }

// wait tries again when it is time.
func (w *waiter) wait(said []core.Refusal) {
	c := w.a.c
	if c.lines.none {
		w.latest = c.now() + core.PollDelay(said, c.w.rng.Float64())
		w.sleep()
		return
	}
	if !w.inLine() {
		c.lines.listen(func() {
			if c.lines.enlist(w) {
				w.a.try()
				return
			}
			w.latest = c.now() + core.PollDelay(said, c.w.rng.Float64())
			w.sleep()
		})
		return
	}
	w.turn.Refused(c.now(), said, c.w.rng.Float64())
	w.latest = math.MaxInt64
	if !c.lines.audible() {
		w.latest = c.now() + core.PollDelay(said, c.w.rng.Float64())
	}
	w.sleep()
}

// sleep sleeps until it is time, as far as is known now.
func (w *waiter) sleep() {
	if w.a.over {
		return
	}
	if w.a.gaveUp {
		w.a.end(nil)
		return
	}
	c := w.a.c
	due := w.latest
	if w.inLine() {
		due = min(due, c.w.rules.due(&w.turn))
	}
	w.asleep = true
	w.alarm++
	number := w.alarm
	wake := func() {
		if number != w.alarm || !w.asleep {
			return
		}
		if w.inLine() && c.now() < min(w.latest, c.w.rules.due(&w.turn)) {
			w.sleep()
			return
		}
		w.a.try()
	}
	if left := due - c.now(); left <= 0 {
		c.soon(wake)
	} else if left < time.Hour {
		c.after(left, wake)
	}
}

// woken looks again at when it is time.
func (w *waiter) woken() {
	if w.asleep {
		w.sleep()
	}
}

type listening uint8

const (
	deaf listening = iota
	asking
	listened
)

// lines are a process's waiters in the lines of the nodes.
type lines struct {
	c         *client
	id        string
	waiters   []*waiter
	last      uint64
	time      core.NodeTime
	hears     []bool
	listening listening
	then      []func()
	none      bool // no node keeps lines
}

// listen subscribes at all nodes, once, and goes on when each has confirmed it or
// its time was up.
func (s *lines) listen(then func()) {
	if s.listening == listened {
		then()
		return
	}
	s.then = append(s.then, then)
	if s.listening == asking {
		return
	}
	s.listening = asking
	c := s.c
	left := len(c.w.nodes)
	done := func() {
		if s.listening == asking {
			s.listening = listened
			for _, then := range s.then {
				then()
			}
			s.then = nil
		}
	}
	for i, n := range c.w.nodes {
		if n.noLines {
			left--
			continue
		}
		c.subscribe(i, func() {
			if s.listening == listened {
				s.event(i, "") // it has become reachable late
				return
			}
			s.hears[i] = true
			if left--; left == 0 {
				done()
			}
		})
	}
	c.after(c.nodeTimeout, done)
}

func (s *lines) event(node int, id string) {
	now := s.c.now()
	if id == "" {
		s.hears[node] = true
		for _, w := range s.waiters {
			w.turn.Missed(now)
			w.woken()
		}
		return
	}
	text, ok := strings.CutPrefix(id, s.id+":")
	number, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil {
		return
	}
	s.c.w.note("client %[1]d hears node %[2]d's call of waiter %[3]d", s.c.id, node, number, 0)
	for _, w := range s.waiters {
		switch {
		case w.number != number:
		case w.waiting:
			s.c.w.rules.called(w, node, now)
			w.woken()
		default:
			s.leave(node, w, func() {})
		}
	}
}

func (s *lines) enlist(w *waiter) bool {
	if w.inLine() {
		return true
	}
	stamp, known := s.c.w.rules.stamp(s, w)
	if !known {
		return false
	}
	s.last++
	s.waiters = append(s.waiters, w)
	w.number = s.last
	w.place = place{Waiter: fmt.Sprint(s.id, ":", w.number), Stamp: max(stamp.Microseconds(), 1)}
	return true
}

func (s *lines) audible() bool {
	n := 0
	for _, hears := range s.hears {
		if hears {
			n++
		}
	}
	return n >= core.Quorum(len(s.hears))
}

func (s *lines) forget(w *waiter) {
	s.waiters = slices.DeleteFunc(s.waiters, func(other *waiter) bool { return other == w })
}

// leaveAll forgets a waiter when all nodes have heard that it has left, or when
// their lines are forgotten.
func (s *lines) leaveAll(w *waiter) {
	heard, c := 0, s.c
	left := func() {
		if heard++; heard == len(c.w.nodes) {
			c.w.rules.forget(s, w)
		}
	}
	for i, n := range c.w.nodes {
		if n.noLines {
			left()
		} else {
			s.leave(i, w, left)
		}
	}
	c.after(c.nodeTimeout, func() {
		if heard < len(c.w.nodes) {
			c.after(rule.QueueExpiry, func() { c.w.rules.forget(s, w) })
		}
	})
}

func (s *lines) leave(i int, w *waiter, heard func()) {
	s.c.soon(func() {
		s.c.request(i, request{op: core.Release, name: w.a.name, place: w.request(core.Release)}, func(a answer) {
			if a.status != core.Unknown {
				heard()
			}
		})
	})
}
