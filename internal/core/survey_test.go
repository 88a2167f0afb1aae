package core_test

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// survey is search for what does not fit into memory, or is grouped. Of a state that was seen, 64
// bits of its hash are kept and nothing else. States that are to be expanded are taken last in,
// first out, so that there are few of them. It finds no path to a violation, and may take a state
// for one that it has seen. Among n states, by chance, that is about n²/2⁶⁵ times.
func survey(m *model, workers int, deadline time.Time) result {
	started := time.Now()
	first := newExplorer(m, deadline).initial()
	if m.grouped && !m.mayGroup() {
		panic("a search of this model cannot be grouped")
	}
	s := &surveyor{m: m, deadline: deadline}
	s.more.L = &s.mu
	for _, c := range first {
		if m.sees != nil {
			for i := range c.n {
				m.sees(&c.states[i])
			}
		}
		for _, h := range c.hashes[:c.n] {
			s.seen.add(h.hi)
		}
		s.stack = append(s.stack, c)
	}
	var wait sync.WaitGroup
	for range workers {
		wait.Go(s.work)
	}
	wait.Wait()
	return result{
		States: int(s.seen.n.Load()), Transitions: s.transitions.Load(), Elapsed: time.Since(started),
		Complete: !s.late && s.violation == "", Violation: s.violation,
	}
}

type surveyor struct {
	m           *model
	deadline    time.Time
	seen        compactSet
	transitions atomic.Int64
	pool        chunks

	mu        sync.Mutex // guards what follows
	more      sync.Cond  // the stack has grown, or it is over
	stack     []*chunk
	working   int
	late      bool
	violation string
}

// take returns what is to be expanded next, nil if it is over.
func (s *surveyor) take() *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.stack) == 0 && s.working > 0 && s.violation == "" && !s.late {
		s.more.Wait()
	}
	s.late = s.late || !s.deadline.IsZero() && time.Now().After(s.deadline)
	if len(s.stack) == 0 || s.violation != "" || s.late {
		s.more.Broadcast()
		return nil
	}
	c := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	s.working++
	return c
}

// put adds what was found while a chunk was expanded; done if that is over.
func (s *surveyor) put(c *chunk, done bool, violation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.n > 0 {
		s.stack = append(s.stack, c)
	}
	if done {
		s.working--
	}
	s.violation = cmp.Or(s.violation, violation)
	s.more.Broadcast()
}

func (s *surveyor) work() {
	enc, out := newEncoder(s.m), (*chunk)(nil)
	visit := func(next *state) {
		s.transitions.Add(1)
		if !s.seen.add(enc.hash(next).hi) {
			return
		}
		if s.m.sees != nil {
			s.m.sees(next)
		}
		out.states[out.n] = *next
		if out.n++; out.n == len(out.states) {
			s.put(out, false, "")
			out = s.pool.get()
		}
	}
	expand := (&grouped{m: s.m, visit: visit}).expand
	if !s.m.grouped {
		expand = s.m.inFull(visit)
	}
	for c := s.take(); c != nil; c = s.take() {
		violation := ""
		out = s.pool.get()
		for i := 0; i < c.n && violation == ""; i++ {
			violation = expand(&c.states[i])
		}
		s.pool.put(c)
		s.put(out, true, violation)
	}
}

// inFull visits every state that comes next.
func (m *model) inFull(visit func(*state)) func(*state) (violation string) {
	var moves []move
	var next state
	return func(from *state) (violation string) {
		moves = m.moves(from, moves[:0])
		for _, mv := range moves {
			next = *from
			if violation = m.apply(&next, mv, nil); violation != "" {
				break
			}
			visit(&next)
		}
		return violation
	}
}

// compactSet is a set of hashes in open tables, so that one takes 8 bytes, and 16 at most
// when its table has just grown.
type compactSet struct {
	n      atomic.Int64
	shards [256]struct {
		mu    sync.Mutex
		table []uint64 // 0 is free
		n     int
	}
}

// add reports whether the hash is new.
func (c *compactSet) add(h uint64) bool {
	h = max(h, 1)
	sh := &c.shards[h>>56]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if 4*sh.n >= 3*len(sh.table) {
		old := sh.table
		sh.table = make([]uint64, max(1024, 2*len(old)))
		for _, h := range old {
			if h != 0 {
				sh.table[slotOf(sh.table, h)] = h
			}
		}
	}
	at := slotOf(sh.table, h)
	if sh.table[at] == h {
		return false
	}
	sh.table[at] = h
	sh.n++
	c.n.Add(1)
	return true
}

// slotOf returns where a hash is, or could be. The length is a power of two, and the
// highest bits have chosen the table.
func slotOf(table []uint64, h uint64) uint64 {
	mask := uint64(len(table) - 1)
	at := h & mask
	for table[at] != 0 && table[at] != h {
		at = (at + 1) & mask
	}
	return at
}

// It sees what the search breadth first does.
func TestSurvey(t *testing.T) {
	for _, m := range []model{
		{proposals: []uint8{1}, reserves: true},
		{proposals: []uint8{1}, rounds: 1, reserves: true},
		{attempts: maxAttempts, proposals: []uint8{1}, inTurn: true},
		{proposals: []uint8{1}, broken: broken{noConfirm: true}},
	} {
		wide, deep := m, m
		want, got := search(&wide, 2, time.Time{}), survey(&deep, 2, time.Time{})
		t.Log(want, "and", got)
		if want.Complete != got.Complete || (want.Violation == "") != (got.Violation == "") {
			t.Errorf("%v %q instead of %v %q", got, got.Violation, want, want.Violation)
		}
		if want.Complete && (want.States != got.States || fmt.Sprint(want.Transitions) != fmt.Sprint(got.Transitions)) {
			t.Errorf("%v instead of %v", got, want)
		}
	}
}
