package core_test

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/core"
)

// encoder turns states into hashes of their canonical form. Which node is called 1, 2 or 3, and
// which attempt A or B, makes no difference to what can happen. So states that differ only in names
// are one state.
type encoder struct {
	m      *model
	lo, hi maphash.Seed
	keys   [maxAttempts][]byte         // what an attempt is, apart from its nodes
	parts  [maxAttempts][nNodes][]byte // what an attempt is at a node
	blocks [nNodes][]byte
	buf    []byte
}

// The seeds differ from run to run: two states that share a hash by accident in
// one run do not in the next.
var loSeed, hiSeed = maphash.MakeSeed(), maphash.MakeSeed()

func newEncoder(m *model) *encoder { return &encoder{m: m, lo: loSeed, hi: hiSeed} }

// hash returns the smallest hash over the orders of attempts that sort their keys.
func (e *encoder) hash(s *state) hash128 {
	for i := range e.m.attempts {
		e.keys[i] = e.key(s, i, e.keys[i][:0])
		for n := range nNodes {
			e.parts[i][n] = e.part(s, i, n, e.parts[i][n][:0])
		}
	}
	var least hash128
	first := true
	for _, order := range orders[e.m.attempts] {
		if !e.sorted(order) {
			continue
		}
		h := e.inOrder(s, order)
		if first || h.hi < least.hi || h.hi == least.hi && h.lo < least.lo {
			least, first = h, false
		}
	}
	return least
}

// orders are the permutations of 0, 1 and 2 attempts, and so on.
var orders = [...][][]int{
	1: {{0}},
	2: {{0, 1}, {1, 0}},
	3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
}

func (e *encoder) sorted(order []int) bool {
	for k := 1; k < len(order); k++ {
		if bytes.Compare(e.keys[order[k-1]], e.keys[order[k]]) > 0 {
			return false
		}
	}
	return true
}

func (e *encoder) key(s *state, i int, b []byte) []byte {
	a := &s.attempts[i]
	if !a.begun {
		return append(b, 0)
	}
	if e.m.shares || e.m.downgrade {
		b = append(b, a.shared)
	}
	if e.m.gives > 0 {
		b = append(b, core.Flags(a.waits))
	}
	if e.m.first {
		b = append(b, byte(e.m.roundsOf(i)))
	}
	round, _ := a.core.Extension()
	switch {
	case e.m.alive(s, i):
		extensions := e.m.rounds
		if e.m.late { // then one may begin in the last extension as well
			extensions++
		}
		b = a.core.AppendState(append(b, 1), extensions)
		b = append(b, core.Flags(a.old, a.tainted, a.ordered, a.stale, a.overdue))
		if e.m.late {
			b = append(b, a.taints)
		}
	case a.wasHeld():
		b = append(b, 2, byte(a.core.Phase()), byte(a.core.Token()), byte(round))
	default:
		b = append(b, 3)
	}
	if mark, _ := a.core.Mark(); e.m.wants != nil && a.wasHeld() {
		b = append(b, byte(mark))
	}
	if e.m.exports {
		b = append(b, a.offered, byte(round), core.Flags(a.exported, a.adopted))
	}
	for n := range nNodes {
		if a.acquires[n].stage == request {
			return append(b, a.proposal) // matters as long as it is on its way
		}
	}
	return b
}

func (e *encoder) part(s *state, i, n int, b []byte) []byte {
	a := &s.attempts[i]
	if !a.begun {
		return b
	}
	if e.m.alive(s, i) {
		b = a.core.AppendNode(b, n, e.m.rounds > 0)
	}
	if e.m.exports {
		b = append(b, core.Flags(a.lapsed.Has(n)))
	}
	if e.m.gives > 0 {
		b = a.gifts.append(b, n)
	}
	b = a.acquires[n].append(b)
	for _, msg := range a.confirms[n] {
		b = msg.append(b)
		if msg.stage == nothing {
			break
		}
		b = append(b, msg.asked)
	}
	if e.m.rounds > 0 {
		x := &a.extends[n]
		b = x.reply.append(append(b, x.requests))
		b = x.agreed.append(b)
		if x.agreed.stage == answered {
			b = append(b, x.agreed.asked, x.agreedIn)
		}
		b = append(b, x.raises[1:e.m.rounds+1]...)
		if e.m.late && e.m.alive(s, i) {
			b = a.core.AppendRounds(b, n)
			for _, late := range x.lates[1 : e.m.rounds+1] {
				b = late.append(b)
			}
		}
	}
	return b
}

func (m message) append(b []byte) []byte {
	b = append(b, byte(m.stage)|byte(m.status)<<4)
	if m.stage == answered {
		b = append(b, m.register)
	}
	return b
}

func (e *encoder) inOrder(s *state, order []int) hash128 {
	for n := range nNodes {
		node := &s.nodes[n]
		lease, origin := byte(0), byte(0)
		for k, i := range order {
			if int(node.lease) == i {
				lease, origin = byte(k+1), node.origins[i]
			}
		}
		b := append(e.blocks[n][:0], lease, origin, node.register, node.forced,
			core.Flags(node.out, node.read, node.inspected))
		if e.m.shares || e.m.downgrade {
			b = append(b, node.epoch)
			for _, i := range order {
				if node.shared&(1<<i) != 0 {
					b = append(b, 1, node.origins[i])
				} else {
					b = append(b, 0)
				}
			}
		}
		for _, i := range order {
			b = append(b, e.parts[i][n]...)
		}
		e.blocks[n] = b
	}
	blocks := e.blocks // the buffers stay where they are
	slices.SortFunc(blocks[:], bytes.Compare)
	b := append(e.buf[:0], s.bumps, s.losses, s.rebuilt, s.floor, s.jumps)
	for _, i := range order {
		b = append(b, e.keys[i]...)
		after := byte(0)
		for k, j := range order {
			after |= (s.attempts[i].after >> j & 1) << k
		}
		b = append(b, after)
	}
	for _, block := range blocks {
		b = append(b, byte(len(block)))
		b = append(b, block...)
	}
	e.buf = b
	return hash128{hi: maphash.Bytes(e.hi, b), lo: maphash.Bytes(e.lo, b)}
}

// A field that the canonical form of a state does not know would merge states
// that differ.
func TestStatesKnowEveryField(t *testing.T) {
	rounds, _ := reflect.TypeFor[core.Attempt]().FieldByName("rounds")
	given := reflect.TypeFor[core.Given]()
	for _, c := range []struct {
		of    reflect.Type
		known string
		teach string
	}{
		// No attempt keeps its leases here. To a node, and so to all others, that is an extension that
		// comes late. Then it is a lease that vanishes where it is released again. The answers decide
		// only what the caller is told. So does spentAt, for which TestAdoptedOnce is. Spent is the
		// same for all who adopt a lock by one text.
		{reflect.TypeFor[core.Attempt](), "params phase reason token until due pace granted acquire leaseless unsent mark " +
			"wanted round roundStart votes highest extended floor raiseFrom raiseEnd raised unagreed waiting abandoned " +
			"releasing keeping spent spentAt rounds silent late freeing",
			"AppendState or AppendNode about it if the future depends on it"},
		{rounds.Type, "begun last first asked open patience unheard misses shares willShare", "AppendRounds about it"},
		// Given is made again for each notice, of the numbers that were heard and given back. With a
		// clock that stands still there is nothing else to it.
		{given, "nodes taken", "hearNotice and givenModel about it"},
		{given.Field(0).Type.Elem(), "number until back asked clock known told then at",
			"hearNotice and givenModel about it"},
	} {
		for i := range c.of.NumField() {
			if field := c.of.Field(i).Name; !slices.Contains(strings.Fields(c.known), field) {
				t.Errorf("%v has a new field %s: teach %s, and add it here", c.of, field, c.teach)
			}
		}
	}
}
