package memnode

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rule"
)

// Crash makes the node lose everything it knew. Until Restart, every operation
// of every client returns an error with ErrDown.
func (n *Node) Crash() {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.out, s.sweepAt = true, true, firstSweep
	s.leases, s.registers = map[string]lease{}, map[int]fence.Token{}
}

// Restart brings a crashed node up again, empty and not admitted: it answers
// Rejoining until Admit is called, or, if it was joined to a group, until the
// group's MaxTTL has passed and the registers could be rebuilt from the others.
// It does nothing to a node that is up.
func (n *Node) Restart() {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		s.down, s.restarted = false, s.clock()
	}
}

// Admit lets a restarted node vote again, at once, with registers that are at least
// those of tokens, by stripe. The caller answers for what a node must wait for
// otherwise: that every lease and every attempt from before has run out.
func (n *Node) Admit(tokens map[int]fence.Token) {
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.store.admit(tokens)
}

func (s *store) admit(tokens map[int]fence.Token) {
	for stripe, token := range tokens {
		s.registers[stripe] = max(s.registers[stripe], token)
	}
	s.out = false
}

// Join implements fenlock.Rejoiner.
func (n *Node) Join(g fenlock.Group) error {
	old := n.group.Load()
	if old == nil && n.group.CompareAndSwap(nil, &g) {
		return nil
	}
	if old = n.group.Load(); !sameGroup(*old, g) {
		return n.errorf("join", fmt.Errorf("the node is in a group of %d nodes with a longest lease of %v already, not in one of %d with %v",
			len(old.Nodes), old.MaxTTL, len(g.Nodes), g.MaxTTL))
	}
	return nil
}

func sameGroup(a, b fenlock.Group) bool {
	if a.MaxTTL != b.MaxTTL || len(a.Nodes) != len(b.Nodes) {
		return false
	}
	for i := range a.Nodes {
		if a.Nodes[i].String() != b.Nodes[i].String() {
			return false
		}
	}
	return true
}

// Registers implements fenlock.Rejoiner.
func (n *Node) Registers(ctx context.Context) (fenlock.Registers, error) {
	if err := n.enter(ctx); err != nil {
		return fenlock.Registers{}, n.errorf("registers", err)
	}
	defer n.store.mu.Unlock()
	r := fenlock.Registers{Admitted: !n.store.out, Tokens: maps.Clone(n.store.registers)}
	if g := n.group.Load(); g != nil {
		r.MaxTTL = g.MaxTTL
	}
	return r, nil
}

// tryRejoin admits a restarted node of a group once its quarantine is over and a
// majority can be read. It holds no lock while it asks the others, who
// may be asking this node.
func (n *Node) tryRejoin(ctx context.Context) {
	s, g := n.store, n.group.Load()
	s.mu.Lock()
	due := g != nil && s.out && !s.down && s.clock() >= s.quarantineEnd(g)
	restarted := s.restarted
	s.mu.Unlock()
	if !due || n.closed.Load() {
		return
	}
	admitted, reachable := 0, 1
	tokens := map[int]fence.Token{}
	for _, other := range g.Nodes {
		peer, ok := other.(fenlock.Rejoiner)
		if !ok || other.String() == n.String() {
			continue
		}
		theirs, err := peer.Registers(ctx)
		if err != nil {
			continue
		}
		reachable++
		if theirs.Admitted {
			admitted++
		}
		for stripe, token := range theirs.Tokens {
			tokens[stripe] = max(tokens[stripe], token)
		}
	}
	quorum := core.Quorum(len(g.Nodes))
	if reachable < quorum {
		return
	}
	s.mu.Lock()
	// It may have crashed again meanwhile, or have been admitted.
	current := s.out && !s.down && s.restarted == restarted
	if current {
		s.admit(tokens)
	}
	s.mu.Unlock()
	if current && admitted < quorum && g.Warn != nil {
		g.Warn(n, fmt.Sprintf("memnode %s: admitted from %d nodes of which %d had their memory; tokens now rest on clocks",
			n.name, reachable, admitted))
	}
}

func (s *store) quarantineEnd(g *fenlock.Group) time.Duration {
	return s.restarted + g.MaxTTL + core.Drift(g.MaxTTL)
}

// outSince says why the node is out. The caller holds the store's mutex.
func (n *Node) outSince(now time.Duration) string {
	g := n.group.Load()
	switch {
	case g == nil:
		return "restarted without its memory; waits for Admit"
	case now < n.store.quarantineEnd(g):
		return fmt.Sprintf("restarted without its memory; out for another %v", n.store.quarantineEnd(g)-now)
	}
	return "restarted without its memory; waits for a majority to rebuild its registers from"
}

// answer turns a reply of the rules into one of the node.
func answer(e *rule.Entry, now time.Duration, r core.Reply) fenlock.Answer {
	a := fenlock.Answer{Status: fenlock.Status(r.Status), Register: r.Register}
	if a.Status == fenlock.Held {
		a.HeldBy, a.Remaining = fenlock.Holder(e.Holder).Label(), e.Expires-now
	}
	return a
}
