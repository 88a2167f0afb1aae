package core_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/node"
)

// Names that several attempts share.

// has reports whether the attempt has a lease there, alone or shared.
func (n *modelNode) has(i int) bool { return int(n.lease) == i || n.shared&(1<<i) != 0 }

// leased returns the attempts that have a lease there, a bit for each.
func (n *modelNode) leased() uint8 {
	if n.lease != vacant {
		return 1 << n.lease
	}
	return n.shared
}

// drop takes the leases of some attempts away.
func (n *modelNode) drop(which uint8) {
	n.shared &^= which
	if n.lease != vacant && which&(1<<n.lease) != 0 {
		n.lease = vacant
	}
	for i := range n.origins {
		if which&(1<<i) != 0 {
			n.origins[i] = 0
		}
	}
}

// readers reports whether both attempts have wanted to share the name from the beginning: these may
// have one token.
func (s *state) readers(i, j int) bool {
	return s.attempts[i].shared == 0 && s.attempts[j].shared == 0
}

// lets reports whether attempt i shares the name by now with attempt j, which has wanted to from
// the beginning. Then j may have a larger token beside it.
func (s *state) lets(i, j int) bool {
	return s.attempts[i].shares() && s.attempts[j].shared == 0
}

// shares reports whether the attempt shares the name, by now.
func (a *attempt) shares() bool {
	round, _ := a.core.Extension()
	return uint32(a.shared) <= round
}

// open appends a move of an attempt that shares the name, at a node with another one left whose
// lease the search has forgotten. It keeps what was promised to them.
func (m *model) open(s *state, n int, mv move, shares bool, moves []move) []move {
	node := &s.nodes[n]
	if !shares || node.lease != vacant || node.epoch == 0 || node.out {
		return moves
	}
	if node.shared != 0 {
		mv.vanish = everybody
	}
	mv = mv.whileOpen()
	moves = append(moves, mv)
	if s.bumps > 0 && m.bumpBy == nil {
		mv.prelude |= 1 << 2
		moves = append(moves, mv)
	}
	return moves
}

// sharedHolder is what package rule makes of those who share the name.
func sharedHolder(at *modelNode, open bool) node.Holder {
	key := [...]uint8{at.shared, at.origins[0], at.origins[1], at.epoch, core.Flags(open)}
	if h, made := sharedHolders.Load(key); made && maxAttempts == 2 {
		return h.(node.Holder)
	}
	h := fmt.Sprintf("%s%d", node.SharedPrefix, at.epoch)
	for i := range maxAttempts {
		if at.shared&(1<<i) != 0 {
			h += fmt.Sprintf("\n%d %d 0 %s", int64(ttl), at.origins[i], name(i))
		}
	}
	if open {
		h += fmt.Sprintf("\n%d 0 0 w", int64(ttl))
	}
	sharedHolders.Store(key, node.Holder(h))
	return node.Holder(h)
}

var sharedHolders sync.Map

// readHolder is the other way round. One more is there whenever the epoch matters.
func (n *modelNode) readHolder(h node.Holder) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(string(h), node.SharedPrefix), "\n")
	epoch, _ := strconv.Atoi(first)
	n.epoch = uint8(epoch)
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if i := int(fields[3][0]) - 'A'; i < maxAttempts {
			origin, _ := strconv.Atoi(fields[1])
			n.shared |= 1 << i
			n.origins[i] = small(fence.Token(origin))
		}
	}
}
