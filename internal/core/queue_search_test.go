package core_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
)

// The search of the model of waiting: depth first, so that a path that comes
// back to itself is seen. What follows from a state is summed up when all that
// comes after it is known.

// queueResult is what a search found.
type queueResult struct {
	States    int
	Attempts  int           // the most that any client needed
	Vacant    time.Duration // the longest that no client held while another waited
	Violation string        // empty: all clients are served, in the right order
	Path      []queueMove
	Elapsed   time.Duration
}

func (r queueResult) String() string {
	return fmt.Sprintf("%d states, at most %d attempts, the lock is free for %v at most, %.1fs",
		r.States, r.Attempts, r.Vacant, r.Elapsed.Seconds())
}

// outlook is what may come after a state.
type outlook struct {
	open     bool // the search has not finished with it
	attempts [maxClients]uint8
	vacant   time.Duration // until a client holds
}

type queueExplorer struct {
	m     *queueModel
	seen  map[hash128]outlook
	enc   queueEncoder
	r     queueResult
	stack []queueMove
	steps []*queueStep // by depth, to be used again
}

// queueStep is what a state of the path needs.
type queueStep struct {
	next  queueState
	moves []queueMove
}

func searchQueue(m *queueModel) queueResult {
	started := time.Now()
	e := &queueExplorer{m: m, seen: make(map[hash128]outlook)}
	s := m.initial()
	from := e.visit(&s)
	for i := range m.clients {
		e.r.Attempts = max(e.r.Attempts, int(from.attempts[i]+s.clients[i].attempt))
	}
	e.r.States, e.r.Elapsed = len(e.seen), time.Since(started)
	return e.r
}

// maxTries is far more than what any client needs.
const maxTries = 50

// stuck tells of a client that has tried too often, or that waits though nothing
// will happen any more.
func (m *queueModel) stuck(s *queueState, moves []queueMove) string {
	for i := range m.clients {
		switch c := &s.clients[i]; {
		case c.attempt > maxTries:
			return waiterName(i) + " tries again and again"
		case len(moves) == 0 && c.stage != served:
			return waiterName(i) + " waits, and nothing will happen any more"
		}
	}
	return ""
}

func (e *queueExplorer) visit(s *queueState) outlook {
	h := e.enc.hash(e.m, s)
	if o, ok := e.seen[h]; ok {
		if o.open {
			e.violated("the same state again: this goes on for ever")
		}
		return o
	}
	e.seen[h] = outlook{open: true}
	var o outlook
	if len(e.steps) == len(e.stack) {
		e.steps = append(e.steps, new(queueStep))
	}
	step := e.steps[len(e.stack)]
	step.moves = e.m.moves(s, step.moves[:0])
	moves, next := step.moves, &step.next
	if text := e.m.stuck(s, moves); text != "" {
		e.violated(text)
	}
	for _, mv := range moves {
		if e.r.Violation != "" {
			return o
		}
		*next = *s
		e.stack = append(e.stack, mv)
		if text := e.m.apply(next, mv, nil); text != "" {
			e.violated(text)
			return o
		}
		after := e.visit(next)
		for i := range o.attempts {
			begun := next.clients[i].attempt - s.clients[i].attempt
			o.attempts[i] = max(o.attempts[i], after.attempts[i]+begun)
		}
		if !s.isHeld() {
			o.vacant = max(o.vacant, next.now-s.now+after.vacant)
		}
		e.stack = e.stack[:len(e.stack)-1]
	}
	e.r.Vacant = max(e.r.Vacant, o.vacant)
	e.seen[h] = o
	return o
}

func (e *queueExplorer) violated(text string) {
	if e.r.Violation == "" {
		e.r.Violation, e.r.Path = text, slices.Clone(e.stack)
	}
}

func (s *queueState) isHeld() bool {
	return slices.ContainsFunc(s.clients[:], func(c client) bool { return c.stage == holds })
}

// steps replays the path of a violation as numbered lines.
func (r queueResult) steps(m *queueModel) string {
	s := m.initial()
	var t trace
	for _, mv := range r.Path {
		m.apply(&s, mv, &t)
	}
	return t.until(r.Violation)
}

// queueEncoder turns states into hashes of their canonical form: nodes without
// names, times and registers as differences.
type queueEncoder struct {
	buf    []byte
	blocks [maxQueueNodes][]byte
}

func (e *queueEncoder) hash(m *queueModel, s *queueState) hash128 {
	base := s.nodes[0].register
	for n := range m.group() - m.down {
		base = min(base, s.nodes[n].register)
	}
	b := append(e.buf[:0], core.Flags(s.ordered))
	var attempts [maxClients]core.Attempt
	for i := range m.clients {
		c := &s.clients[i]
		b = append(b, byte(c.stage))
		switch c.stage {
		case holds:
			b = binary.AppendVarint(b, int64(s.now-c.since))
		case trying:
			attempts[i] = c.core.Rebase(fence.Token(base))
			b = attempts[i].AppendState(b, 0)
			b = c.retry.AppendState(b, s.now)
		case waiting:
			b = c.retry.AppendState(b, s.now)
		}
	}
	for at := range m.group() {
		e.blocks[at] = e.node(m, s, at, base, &attempts, e.blocks[at][:0])
	}
	blocks := e.blocks // the buffers stay where they are
	sorted := blocks[:m.group()]
	slices.SortFunc(sorted, bytes.Compare)
	for _, block := range sorted {
		b = binary.AppendUvarint(b, uint64(len(block)))
		b = append(b, block...)
	}
	e.buf = b
	return hash128{hi: maphash.Bytes(hiSeed, b), lo: maphash.Bytes(loSeed, b)}
}

// node appends all that belongs to a node, and what is under way to and from it.
func (e *queueEncoder) node(m *queueModel, s *queueState, at int, base uint8, attempts *[maxClients]core.Attempt,
	b []byte) []byte {
	n := &s.nodes[at]
	switch {
	case n.owner == 0 || n.expires <= s.now:
		b = append(b, 0)
	case n.attempt == 0:
		b = append(b, n.owner|128)
		b = binary.AppendVarint(b, int64(n.expires-s.now))
	default:
		b = append(b, n.owner, s.clients[n.owner-1].attempt-n.attempt)
		b = binary.AppendVarint(b, int64(n.expires-s.now))
	}
	b = append(b, n.register-base, byte(n.length), core.Flags(at >= m.group()-m.down))
	for _, p := range n.waiters[:n.length] {
		b = append(b, byte(waiterIndex(p.Waiter)))
	}
	for i := range m.clients {
		c := &s.clients[i]
		switch c.stage {
		case trying:
			b = attempts[i].AppendNode(b, at, false)
			b = append(b, core.Flags(c.retry.IsNotified(at)), byte(c.said[at].Status), byte(c.said[at].Ahead))
			b = binary.AppendVarint(b, int64(c.said[at].Remaining))
		case waiting:
			b = append(b, core.Flags(c.retry.IsNotified(at)))
		}
		b = append(b, c.notifications[at])
		b = c.out[at].append(b, c.attempt, base)
		b = c.in[at].append(b, c.attempt, base)
	}
	return b
}

func (p *pipe) append(b []byte, attempt, base uint8) []byte {
	b = append(b, p.length)
	for _, msg := range p.msgs[:p.length] {
		about := byte(255)
		if msg.attempt > 0 {
			about = attempt - msg.attempt
		}
		b = append(b, byte(msg.op)|byte(msg.status)<<4, about, msg.number-base, msg.asked-base,
			msg.ahead|core.Flags(msg.stays)<<7)
		b = binary.AppendVarint(b, int64(msg.remaining))
	}
	return b
}
