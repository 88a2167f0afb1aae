package trace

import (
	"fmt"
	"slices"

	"github.com/fenlock/fenlock/internal/proof/model"
)

// State is a concrete state of a model: the values of its symbols.
type State interface {
	get(s *symbol, k key) uint64
	set(s *symbol, k key, v uint64)
	each(s *symbol, f func(k key, v uint64) bool) // until f returns false
}

// Open is a state of any size.
type Open struct{ tables []table }

// NewOpen returns the state in which everything is empty, and 0.
func (mc *Machine) NewOpen() *Open {
	return &Open{make([]table, len(mc.symbols))}
}

// table has what is not 0. A short one is searched from its end: what is asked for is often recent.
type table struct {
	entries []entry
	index   map[key]int // nil: it is short
}

type entry struct {
	key   key
	value uint64
}

const short = 16

func (t *table) find(k *key) int {
	if t.index != nil {
		if at, has := t.index[*k]; has {
			return at
		}
		return -1
	}
	for i := len(t.entries) - 1; i >= 0; i-- {
		if t.entries[i].key == *k {
			return i
		}
	}
	return -1
}

func (o *Open) get(s *symbol, k key) uint64 {
	t := &o.tables[s.index]
	if at := t.find(&k); at >= 0 {
		return t.entries[at].value
	}
	return 0
}

func (o *Open) set(s *symbol, k key, v uint64) {
	t := &o.tables[s.index]
	at := t.find(&k)
	last := len(t.entries) - 1
	switch {
	case at >= 0 && v != 0:
		t.entries[at].value = v
	case at >= 0:
		t.entries[at] = t.entries[last]
		t.entries = t.entries[:last]
		if t.index != nil {
			delete(t.index, k)
			if at != last {
				t.index[t.entries[at].key] = at
			}
		}
	case v != 0:
		t.entries = append(t.entries, entry{k, v})
		if t.index != nil {
			t.index[k] = last + 1
		} else if len(t.entries) > short {
			t.index = make(map[key]int, 2*short)
			for i := range t.entries {
				t.index[t.entries[i].key] = i
			}
		}
	}
}

func (o *Open) each(s *symbol, f func(k key, v uint64) bool) {
	for _, e := range o.tables[s.index].entries {
		if !f(e.key, e.value) {
			return
		}
	}
}

// Drop forgets all of a value, which is of no use to any step to come.
func (o *Open) Drop(mc *Machine, s *model.Sort, v uint64) {
	for _, sym := range mc.symbols {
		if !slices.Contains(sym.Args[:sym.keys], s) {
			continue
		}
		var gone []key
		o.each(sym, func(k key, _ uint64) bool {
			for i := range sym.keys {
				if sym.Args[i] == s && k[i] == v {
					gone = append(gone, k)
					break
				}
			}
			return true
		})
		for _, k := range gone {
			o.set(sym, k, 0)
		}
	}
}

// Frame says how large a Small state is, and where in its bytes what is.
type Frame struct {
	mc    *Machine
	size  map[string]int
	parts []part
	Bytes int
}

type part struct {
	at     int // byte
	stride [maxArgs]int
	count  int
}

// NewFrame lays out states with so many values of each sort, without the symbols of which nothing
// is ever in them. Numbers are smaller than 255.
func (mc *Machine) NewFrame(size map[string]int, without ...string) *Frame {
	f := &Frame{mc: mc, size: size}
	for _, s := range mc.symbols {
		p := part{at: f.Bytes, count: 1}
		for i := range s.keys {
			p.stride[i] = p.count
			p.count *= size[s.Args[i].Name]
		}
		if slices.Contains(without, s.Name) {
			p.count = 0
		}
		f.Bytes += p.count
		f.parts = append(f.parts, p)
	}
	return f
}

// Small is a state within a Frame, as bytes that can be copied.
type Small struct {
	*Frame
	B []byte
}

func (s Small) at(sym *symbol, k *key) int {
	p := &s.parts[sym.index]
	at := p.at
	for i := range sym.keys {
		if k[i] >= uint64(s.size[sym.Args[i].Name]) || p.count == 0 {
			panic(fmt.Sprintf("%s has %d as argument %d: the frame is too small", sym.Name, k[i], i+1))
		}
		at += p.stride[i] * int(k[i])
	}
	return at
}

func (s Small) get(sym *symbol, k key) uint64 {
	if s.parts[sym.index].count == 0 {
		return 0
	}
	return uint64(s.B[s.at(sym, &k)])
}

func (s Small) set(sym *symbol, k key, v uint64) {
	if v > 255 {
		panic("a number that is too large for a small state")
	}
	s.B[s.at(sym, &k)] = byte(v)
}

func (s Small) each(sym *symbol, f func(k key, v uint64) bool) {
	p := &s.parts[sym.index]
	for i := range p.count {
		v := s.B[p.at+i]
		if v == 0 {
			continue
		}
		var k key
		rest := i
		for a := range sym.keys {
			n := s.size[sym.Args[a].Name]
			k[a] = uint64(rest % n)
			rest /= n
		}
		if !f(k, uint64(v)) {
			return
		}
	}
}
