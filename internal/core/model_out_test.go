package core_test

import (
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// What the searches leave out and the replays of the proof's runs need. That is late requests at a
// node that is out, and requests that a node carries out twice: see repeats.

// mayStray reports whether a node that is out may carry out a request that comes late.
func (m *model) mayStray(s *state, n int) bool {
	ready := s.count(func(n modelNode) bool { return n.read }) > 0
	return m.strays && s.nodes[n].out && (!ready || m.broken.straysLate)
}

// stray has a node that is out carry out an acquire: it comes late, to a memory that was there
// before. Its answer counts for nothing.
func (m *model) stray(s *state, i, n int, t *trace) {
	a := &s.attempts[i]
	e := s.entry(n)
	e.Out = false
	reply := serve(&e, node.Acquire, a.holder(i), fence.Token(a.proposal), a.shared == 0)
	e.Out = true
	s.setEntry(n, e)
	a.acquires[n] = message{}
	t.say("node %d, which is out, executes %s's acquire: %s", n+1, name(i), words(reply))
}

// waited is the end of the quarantine, just before the first register is read: no lease from before
// is there any more.
func (m *model) waited(s *state) {
	if m.broken.leasesOutlive || s.count(func(n modelNode) bool { return n.read }) > 0 {
		return
	}
	for n := range s.nodes {
		if s.nodes[n].out {
			s.nodes[n].drop(everybody)
		}
	}
}

// admit has the node vote again. It has no lease, unless the rules are broken: see waited.
func (n *modelNode) admit(rebuilt uint8) {
	*n = modelNode{lease: n.lease, shared: n.shared, origins: n.origins, epoch: n.epoch,
		register: max(n.register, rebuilt)}
}

// repeat leaves a second copy of a confirm on its way.
func (m *model) repeat(a *attempt, n int, asked uint8) {
	if !m.repeats {
		return
	}
	slot := 0
	for a.confirms[n][slot].stage != nothing {
		slot++
	}
	a.confirms[n][slot] = message{stage: orphan, asked: asked}
}
