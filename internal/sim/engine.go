package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// life is that of a client's process.
type life struct {
	epoch       int // counts the client's lives: a process that was killed starts anew
	pausedUntil time.Duration
}

// event is something that happens at a time. A process's event waits while it is paused, and never
// happens once it was killed.
type event struct {
	of    *life
	epoch int
	run   func()
}

// due is when an event happens. Equal times happen in the order in which they
// were planned.
type due struct {
	at   time.Duration
	seq  uint64
	slot int32 // of the event
}

func (a *due) before(b *due) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// agenda is a heap of four children each. It moves times only: moving pointers
// costs the garbage collector's attention, and a third of a run.
type agenda struct {
	heap   []due
	events []event
	free   []int32 // slots
}

func (h *agenda) push(d due, e event) {
	if n := len(h.free); n > 0 {
		d.slot, h.free = h.free[n-1], h.free[:n-1]
		h.events[d.slot] = e
	} else {
		d.slot = int32(len(h.events))
		h.events = append(h.events, e)
	}
	h.heap = append(h.heap, d)
	q := h.heap
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !d.before(&q[parent]) {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = d
}

func (h *agenda) pop() (due, event) {
	top := h.heap[0]
	n := len(h.heap) - 1
	last := h.heap[n]
	h.heap = h.heap[:n]
	q := h.heap
	i := 0
	for n > 0 {
		least := 4*i + 1
		if least >= n {
			break
		}
		for child := least + 1; child < min(4*i+5, n); child++ {
			if q[child].before(&q[least]) {
				least = child
			}
		}
		if !q[least].before(&last) {
			break
		}
		q[i] = q[least]
		i = least
	}
	if n > 0 {
		q[i] = last
	}
	e := h.events[top.slot]
	h.events[top.slot] = event{}
	h.free = append(h.free, top.slot)
	return top, e
}

// engine is time, chance and the record of what happened.
type engine struct {
	now    time.Duration // true time
	agenda agenda
	seq    uint64
	rng    *rand.Rand

	hash   uint64
	events int
	trace  func(string) // nil: there is no reader
}

func newEngine(seed uint64) engine {
	return engine{rng: rand.New(rand.NewPCG(seed, 0x66656e6c6f636b)), hash: 14695981039346656037}
}

func (g *engine) plan(t time.Duration, e event) {
	g.seq++
	g.agenda.push(due{at: max(t, g.now), seq: g.seq}, e)
}

func (g *engine) at(t time.Duration, f func())    { g.plan(t, event{run: f}) }
func (g *engine) after(d time.Duration, f func()) { g.at(g.now+d, f) }

func (g *engine) atOf(l *life, t time.Duration, f func()) {
	g.plan(t, event{of: l, epoch: l.epoch, run: f})
}

// step makes the next event happen, false if there is none.
func (g *engine) step() bool {
	if len(g.agenda.heap) == 0 {
		return false
	}
	d, e := g.agenda.pop()
	g.now = d.at
	if e.of != nil {
		if e.epoch != e.of.epoch {
			return true
		}
		if g.now < e.of.pausedUntil {
			// After a pause everything is due at once, in no particular order:
			// timers, answers and timeouts race.
			g.plan(e.of.pausedUntil+g.upTo(200*time.Microsecond), e)
			return true
		}
	}
	g.events++
	e.run()
	return true
}

// chance is true with a probability of n in a million.
func (g *engine) chance(ppm int) bool { return ppm > 0 && g.rng.IntN(1_000_000) < ppm }

func (g *engine) upTo(d time.Duration) time.Duration {
	return time.Duration(g.rng.Int64N(int64(d) + 1))
}

func (g *engine) between(a, b time.Duration) time.Duration { return a + g.upTo(b-a) }

// wide is a time of no typical size, up to limit: each doubling is as likely.
// Shifts, not logarithms, so that every machine computes the same.
func (g *engine) wide(limit time.Duration) time.Duration {
	return min(g.upTo(time.Millisecond<<g.rng.IntN(16)), limit)
}

// note records what happened in the hash, and in words if there is a reader. The words are a format
// with explicit indexes, so that those not needed can be left out.
func (g *engine) note(words string, a, b int, x, y uint64) {
	h := g.hash
	for _, v := range [...]uint64{uint64(g.now), uint64(len(words))<<8 | uint64(words[0]), uint64(a), uint64(b), x, y} {
		h = (h ^ v) * 1099511628211 // FNV-1a, a word at a time
	}
	g.hash = h ^ h>>29
	if g.trace != nil {
		g.trace(fmt.Sprintf("%12.6fs  ", g.now.Seconds()) + fmt.Sprintf(words, a, b, x, y))
	}
}

// clock shows a time of its own: it runs at its own rate, from its own zero.
type clock struct {
	ppm    int64 // how much faster than true time, in millionths
	offset time.Duration
}

func (c clock) local(t time.Duration) time.Duration {
	return c.offset + t + time.Duration(int64(t)*c.ppm/1_000_000)
}

// truth returns the first moment at which the clock shows at least local.
func (c clock) truth(local time.Duration) time.Duration {
	since := local - c.offset
	// In two parts: the product of a long time would not fit.
	whole, rest := since/time.Second, since%time.Second
	t := time.Duration((int64(whole)*1e15 + int64(rest)*1_000_000) / (1_000_000 + c.ppm))
	for c.local(t) >= local {
		t--
	}
	for c.local(t) < local {
		t++
	}
	return t
}
