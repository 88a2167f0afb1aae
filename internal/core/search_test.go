package core_test

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The search engine: breadth first, so that a counterexample is as short as it can be. A state
// counts as seen by the 128-bit hash of its canonical form; with 10 million states the chance that
// two of them share a hash is below 10^-24. Of a state that was expanded three things are kept: its
// hash, that of the state before, and the move between them. The path is replayed from these.

// result is what a search found.
type result struct {
	States      int
	Transitions int64
	Depth       int  // the longest of the shortest paths to a state; 0 if that was not found out
	Complete    bool // every reachable state was visited
	Elapsed     time.Duration
	Violation   string // empty: the invariants hold
	Path        []move // from an initial state to the violation
	initial     int
}

func (r result) String() string {
	s := fmt.Sprintf("%d states, %d transitions, %.1fs", r.States, r.Transitions, r.Elapsed.Seconds())
	if r.Depth > 0 {
		s += fmt.Sprintf(", depth %d", r.Depth)
	}
	if !r.Complete {
		s += ", NOT complete"
	}
	return s
}

// search explores the model until nothing new turns up, a violation is found
// or the deadline (zero for none) has passed. One worker gives the same
// counterexample in every run; several are faster.
func search(m *model, workers int, deadline time.Time) result {
	started := time.Now()
	e := newExplorer(m, deadline)
	r := result{Complete: true}
	level := e.initial()
	for len(level) > 0 {
		next := make([][]*chunk, workers)
		var taken atomic.Int64
		var wait sync.WaitGroup
		for w := range workers {
			wait.Go(func() { next[w] = e.expand(level, &taken) })
		}
		wait.Wait()
		if e.found.text != "" {
			r.Violation = e.found.text
			r.initial, r.Path = e.path(e.found.step)
		}
		if e.found.text != "" || e.late.Load() {
			r.Complete = false
			break
		}
		level = slices.Concat(next...)
		if len(level) > 0 {
			r.Depth++
		}
	}
	for i := range e.shards {
		r.States += len(e.shards[i].seen)
	}
	r.Transitions = e.transitions.Load()
	r.Elapsed = time.Since(started)
	return r
}

type explorer struct {
	m           *model
	deadline    time.Time
	late        atomic.Bool
	transitions atomic.Int64
	shards      [64]shard
	pool        chunks

	mu    sync.Mutex
	found struct {
		text string
		step step
	}
}

func newExplorer(m *model, deadline time.Time) *explorer {
	m.attempts = cmp.Or(m.attempts, 2)
	e := &explorer{m: m, deadline: deadline}
	for i := range e.shards {
		e.shards[i].seen = make(map[hash128]step)
	}
	return e
}

// chunk is a piece of a level, so that levels grow without being copied.
type chunk struct {
	n      int
	hashes [256]hash128
	states [256]state
	tied   []byte // the states of the model that is proved
}

// tiedTo returns that of a state.
func (c *chunk) tiedTo(t *tie, i int) []byte {
	if c.tied == nil {
		c.tied = make([]byte, len(c.states)*t.frame.Bytes)
	}
	return c.tied[i*t.frame.Bytes:][:t.frame.Bytes]
}

// chunks are pieces to be used again.
type chunks struct{ pool sync.Pool }

func (p *chunks) get() *chunk {
	if c, ok := p.pool.Get().(*chunk); ok {
		c.n = 0
		return c
	}
	return new(chunk)
}

func (p *chunks) put(c *chunk) { p.pool.Put(c) }

func (e *explorer) initial() []*chunk {
	c := e.pool.get()
	clear(c.tied)
	enc := newEncoder(e.m)
	for i, s := range e.m.initialStates() {
		if h := enc.hash(&s); e.add(h, step{move: move{arg: uint8(i)}, root: true}) {
			c.hashes[c.n], c.states[c.n] = h, s
			c.n++
		}
	}
	return []*chunk{c}
}

func (e *explorer) expand(level []*chunk, taken *atomic.Int64) (next []*chunk) {
	var moves []move
	m := *e.m
	if m.tied {
		m.tie = newTie(&m)
	}
	enc := newEncoder(e.m)
	out := e.pool.get()
	for {
		at := int(taken.Add(1)) - 1
		if at >= len(level) {
			break
		}
		if !e.deadline.IsZero() && time.Now().After(e.deadline) {
			e.late.Store(true)
			return nil
		}
		for i := range level[at].n {
			moves = e.m.moves(&level[at].states[i], moves[:0])
			e.transitions.Add(int64(len(moves)))
			for _, mv := range moves {
				from := step{parent: level[at].hashes[i], move: mv}
				s := &out.states[out.n]
				*s = level[at].states[i]
				if m.tie != nil {
					copy(m.tie.now.B, level[at].tiedTo(m.tie, i))
				}
				if text := m.apply(s, mv, nil); text != "" {
					e.violation(text, from)
					return nil
				}
				h := enc.hash(s)
				if !e.add(h, from) {
					continue
				}
				out.hashes[out.n] = h
				if m.tie != nil {
					copy(out.tiedTo(m.tie, out.n), m.tie.now.B)
				}
				if out.n++; out.n == len(out.states) {
					next = append(next, out)
					out = e.pool.get()
				}
			}
		}
		e.pool.put(level[at])
	}
	if out.n > 0 {
		next = append(next, out)
	}
	return next
}

func (e *explorer) violation(text string, last step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found.text == "" {
		e.found.text, e.found.step = text, last
	}
}

// path returns the initial state's number and the moves from it up to a step.
func (e *explorer) path(at step) (initial int, path []move) {
	for ; !at.root; at = e.shard(at.parent).seen[at.parent] {
		path = append(path, at.move)
	}
	slices.Reverse(path)
	return int(at.move.arg), path
}

type hash128 struct{ hi, lo uint64 }

// step is how a state was reached first.
type step struct {
	parent hash128
	move   move
	root   bool // there is no parent: the move's argument is the number of an initial state
}

// shard is a piece of the set of seen states, so that workers seldom meet.
type shard struct {
	mu   sync.Mutex
	seen map[hash128]step
	_    [64]byte // no false sharing
}

func (e *explorer) shard(h hash128) *shard { return &e.shards[h.hi%uint64(len(e.shards))] }

// add reports whether the state is new.
func (e *explorer) add(h hash128, from step) (fresh bool) {
	sh := e.shard(h)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, seen := sh.seen[h]; seen {
		return false
	}
	sh.seen[h] = from
	return true
}

// steps replays the path of a violation as numbered lines.
func (r result) steps(m *model) string {
	s := m.initialStates()[r.initial]
	var t trace
	if m.tied {
		with := *m
		with.tie = newTie(m)
		with.tie.group.Silent = false
		m = &with
	}
	for _, mv := range r.Path {
		if violation := m.apply(&s, mv, &t); violation != "" && m.tied {
			r.Violation = violation
		}
	}
	return t.until(r.Violation)
}

// explore searches on all cores until the deadline, for what must not be there.
func explore(t *testing.T, m *model, deadline time.Time) result {
	t.Helper()
	if m.grouped {
		r := survey(m, runtime.GOMAXPROCS(0), deadline)
		if t.Log(r); r.Violation != "" {
			t.Fatalf("%s; make search-full finds the path", r.Violation)
		}
		return r
	}
	r := search(m, runtime.GOMAXPROCS(0), deadline)
	t.Log(r)
	if r.Violation != "" {
		t.Fatalf("counterexample:\n%s", r.steps(m))
	}
	return r
}
