package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// event is something that happens at a time. A client's event waits while that
// client is paused, and never happens once it was killed.
type event struct {
	at    time.Duration
	seq   uint64 // equal times happen in the order in which they were planned
	of    *client
	epoch int
	run   func()
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

// agenda is a binary heap of events. container/heap would allocate for each.
type agenda []event

func (h *agenda) push(e event) {
	*h = append(*h, e)
	q := *h
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !q[i].before(&q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *agenda) pop() event {
	q := *h
	top := q[0]
	last := len(q) - 1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && q[child+1].before(&q[child]) {
			child++
		}
		if !q[child].before(&q[i]) {
			break
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
	*h = q
	return top
}

// engine is time, chance and the record of what happened.
type engine struct {
	now    time.Duration // true time
	agenda agenda
	seq    uint64
	rng    *rand.Rand

	hash   uint64
	events int
	trace  func(string) // nil: nobody reads along
}

func newEngine(seed uint64) engine {
	return engine{rng: rand.New(rand.NewPCG(seed, 0x66656e6c6f636b)), hash: 14695981039346656037}
}

func (g *engine) at(t time.Duration, f func()) {
	g.seq++
	g.agenda.push(event{at: max(t, g.now), seq: g.seq, run: f})
}

func (g *engine) after(d time.Duration, f func()) { g.at(g.now+d, f) }

func (g *engine) atOf(c *client, t time.Duration, f func()) {
	g.seq++
	g.agenda.push(event{at: max(t, g.now), seq: g.seq, of: c, epoch: c.epoch, run: f})
}

// step makes the next event happen, false if there is none.
func (g *engine) step() bool {
	if len(g.agenda) == 0 {
		return false
	}
	e := g.agenda.pop()
	g.now = e.at
	if e.of != nil {
		if e.epoch != e.of.epoch {
			return true
		}
		if g.now < e.of.pausedUntil {
			// After a pause everything is due at once, in no particular order:
			// timers, answers and timeouts race.
			e.at = e.of.pausedUntil + g.upTo(200*time.Microsecond)
			g.seq++
			e.seq = g.seq
			g.agenda.push(e)
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

// note records what happened in the hash, and in words if somebody reads along.
// The words are a format with explicit indexes, so that those not needed can be
// left out.
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
