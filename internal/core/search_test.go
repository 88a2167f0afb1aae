package core_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The search engine: breadth first, so that a counterexample is as short as it
// can be. A state counts as seen by the 128-bit hash of its canonical form;
// with 10 million states the chance that two of them share a hash is below
// 10^-24. Nothing is kept of a state that was expanded but its hash and the
// move that led to it, from which the path is replayed.

// result is what a search found.
type result struct {
	States      int
	Transitions int64
	Depth       int  // the longest of the shortest paths to a state
	Complete    bool // every reachable state was visited
	Elapsed     time.Duration
	Violation   string // empty: the invariants hold
	Path        []move // from an initial state to the violation
	initial     int
}

func (r result) String() string {
	s := fmt.Sprintf("%d states, %d transitions, depth %d, %.1fs", r.States, r.Transitions, r.Depth, r.Elapsed.Seconds())
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
	e := &explorer{m: m, deadline: deadline}
	for i := range e.shards {
		e.shards[i].table = make([]slot, 64)
	}
	r := result{Complete: true}
	level := e.initial()
	for len(level) > 0 {
		next := make([][]*chunk, workers)
		var taken atomic.Int64
		var wait sync.WaitGroup
		for w := range workers {
			wait.Add(1)
			go func() {
				defer wait.Done()
				next[w] = e.expand(level, &taken)
			}()
		}
		wait.Wait()
		if e.found.text != "" {
			r.Violation = e.found.text
			r.initial, r.Path = e.path(e.found.parent)
			r.Path = append(r.Path, e.found.move)
			r.Complete = false
			break
		}
		if e.late.Load() {
			r.Complete = false
			break
		}
		level = level[:0]
		for _, chunks := range next {
			level = append(level, chunks...)
		}
		if len(level) > 0 {
			r.Depth++
		}
	}
	for i := range e.shards {
		r.States += len(e.shards[i].entries)
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
	shards      [1 << shardBits]shard
	pool        sync.Pool

	mu    sync.Mutex
	found struct {
		text   string
		parent uint32
		move   move
	}
}

// chunk is a piece of a level, so that levels grow without being copied.
type chunk struct {
	n      int
	ids    [256]uint32
	states [256]state
}

func (e *explorer) chunk() *chunk {
	if c, ok := e.pool.Get().(*chunk); ok {
		c.n = 0
		return c
	}
	return new(chunk)
}

func (e *explorer) initial() []*chunk {
	c := e.chunk()
	enc := newEncoder(e.m)
	for i, s := range e.m.initialStates() {
		if id, fresh := e.add(enc.hash(&s), root, move{arg: uint8(i)}); fresh {
			c.ids[c.n], c.states[c.n] = id, s
			c.n++
		}
	}
	return []*chunk{c}
}

func (e *explorer) expand(level []*chunk, taken *atomic.Int64) (next []*chunk) {
	var moves []move
	enc := newEncoder(e.m)
	out := e.chunk()
	transitions := int64(0)
	defer func() { e.transitions.Add(transitions) }()
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
			parent := level[at].ids[i]
			moves = e.m.moves(&level[at].states[i], moves[:0])
			for _, mv := range moves {
				transitions++
				s := &out.states[out.n]
				*s = level[at].states[i]
				if text := e.m.apply(s, mv, nil); text != "" {
					e.violation(text, parent, mv)
					return nil
				}
				id, fresh := e.add(enc.hash(s), parent, mv)
				if !fresh {
					continue
				}
				out.ids[out.n] = id
				if out.n++; out.n == len(out.states) {
					next = append(next, out)
					out = e.chunk()
				}
			}
		}
		e.pool.Put(level[at])
	}
	if out.n == 0 {
		return next
	}
	return append(next, out)
}

func (e *explorer) violation(text string, parent uint32, mv move) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found.text == "" {
		e.found.text, e.found.parent, e.found.move = text, parent, mv
	}
}

// path returns the initial state's number and the moves from it to a state.
func (e *explorer) path(id uint32) (initial int, path []move) {
	for {
		entry := e.shards[id%(1<<shardBits)].entries[id>>shardBits]
		if entry.parent == root {
			break
		}
		path = append(path, entry.move)
		id = entry.parent
	}
	initial = int(e.shards[id%(1<<shardBits)].entries[id>>shardBits].move.arg)
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return initial, path
}

// The set of seen states, in shards so that workers seldom meet.

const (
	shardBits = 6
	root      = ^uint32(0)
)

type hash128 struct{ hi, lo uint64 }

type entry struct {
	hash   hash128
	parent uint32 // index in its shard << shardBits | shard
	move   move
}

// slot holds a piece of the hash besides the index, so that most lookups are
// decided without a look at the entry.
type slot struct {
	tag   uint32
	index uint32 // into entries, plus one; 0 is free
}

type shard struct {
	mu      sync.Mutex
	entries []entry
	table   []slot   // open addressing
	_       [64]byte // no false sharing
}

func (e *explorer) add(h hash128, parent uint32, mv move) (id uint32, fresh bool) {
	number := h.hi % (1 << shardBits)
	sh := &e.shards[number]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if 2*len(sh.entries) >= len(sh.table) {
		sh.grow()
	}
	at := sh.find(h)
	if sh.table[at].index != 0 {
		return 0, false
	}
	sh.entries = append(sh.entries, entry{hash: h, parent: parent, move: mv})
	sh.table[at] = slot{uint32(h.hi >> 32), uint32(len(sh.entries))}
	return uint32(len(sh.entries)-1)<<shardBits | uint32(number), true
}

func (sh *shard) find(h hash128) uint64 {
	mask := uint64(len(sh.table) - 1)
	for at := h.lo & mask; ; at = (at + 1) & mask {
		found := sh.table[at]
		if found.index == 0 || found.tag == uint32(h.hi>>32) && sh.entries[found.index-1].hash == h {
			return at
		}
	}
}

func (sh *shard) grow() {
	sh.table = make([]slot, 2*len(sh.table))
	for i := range sh.entries {
		h := sh.entries[i].hash
		sh.table[sh.find(h)] = slot{uint32(h.hi >> 32), uint32(i + 1)}
	}
}

// steps replays the path of a violation as numbered lines.
func (r result) steps(m *model) string {
	s := m.initialStates()[r.initial]
	var t trace
	for _, mv := range r.Path {
		m.apply(&s, mv, &t)
	}
	var b strings.Builder
	for i, line := range t {
		fmt.Fprintf(&b, "  %2d. %s\n", i+1, line)
	}
	fmt.Fprintf(&b, "  violated: %s", r.Violation)
	return b.String()
}

// allCores is the number of workers for a search without a counterexample.
func allCores() int { return runtime.GOMAXPROCS(0) }
