package memnode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/rule"
)

// Crash makes the node lose everything it knew. Until Restart, every operation
// of every client returns an error with ErrDown, and nobody is notified.
func (n *Node) Crash() {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.empty, s.Store = true, nil, rule.Store{Out: true}
}

// Restart brings a crashed node up again, empty and not admitted: it answers
// Rejoining until Admit is called, or, if it was joined to a group, until the
// group's MaxTTL has passed and the registers could be rebuilt from the others.
// Whoever listens is told that notifications may have been missed. It does nothing to a
// node that is up.
func (n *Node) Restart() {
	s := n.store
	s.mu.Lock()
	var tell []listener
	if s.down {
		s.down, s.restarted = false, s.clock()
		for _, of := range s.listeners {
			tell = append(tell, of...)
		}
	}
	s.mu.Unlock()
	for _, l := range tell {
		l.notify("")
	}
}

// Admit lets a restarted node vote again, at once, with registers that are at least
// those of tokens, by stripe. The caller answers for what a node must wait for
// otherwise: that every lease and every attempt from before has run out.
func (n *Node) Admit(tokens map[int]fence.Token) {
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.store.Raise(tokens)
	n.store.Out = false
}

// Join implements node.Rejoiner.
func (n *Node) Join(g node.Group) error {
	if n.group.CompareAndSwap(nil, &g) {
		return nil
	}
	sameName := func(a, b node.Node) bool { return a.String() == b.String() }
	if old := n.group.Load(); old.MaxTTL != g.MaxTTL || !slices.EqualFunc(old.Nodes, g.Nodes, sameName) {
		return n.errorf("join", fmt.Errorf("the node is in a group of %d nodes with a longest lease of %v already, not in one of %d with %v",
			len(old.Nodes), old.MaxTTL, len(g.Nodes), g.MaxTTL))
	}
	return nil
}

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	if err := n.enter(ctx, "registers"); err != nil {
		return node.Registers{}, err
	}
	defer n.store.mu.Unlock()
	s := n.store
	r := node.Registers{Server: s.server(), Memory: s.memory(s.restarted), Admitted: !s.Out,
		Empty: s.empty, Tokens: maps.Clone(s.Registers)}
	if g := n.group.Load(); g != nil {
		r.MaxTTL = g.MaxTTL
	}
	return r, nil
}

// tryRejoin admits a restarted node of a group once its quarantine is over and
// enough of the others can be read. It holds no lock while it asks them, who
// may be asking this node.
func (n *Node) tryRejoin(ctx context.Context) {
	s, g := n.store, n.group.Load()
	s.mu.Lock()
	due := g != nil && s.Out && !s.down && s.clock() >= s.quarantineEnd(g)
	restarted := s.restarted
	s.mu.Unlock()
	if !due || n.closed.Load() {
		return
	}
	// The store is in the group by this node, or by another client of it.
	self := g.Nodes[max(0, slices.IndexFunc(g.Nodes, func(other node.Node) bool {
		m, ok := other.Engine().(*Node)
		return ok && m.store == s
	}))]
	merged, err := rebuild.Merge(len(g.Nodes), rebuild.Self{Server: s.server(), Memory: s.memory(restarted), Untouched: true},
		rebuild.Ask(ctx, *g, self))
	if err != nil {
		return
	}
	s.mu.Lock()
	// It may have crashed again meanwhile, or have been admitted.
	current := s.Out && !s.down && s.restarted == restarted
	if current {
		s.Raise(merged.Tokens)
		s.Out, s.empty = false, merged.Empty
	}
	s.mu.Unlock()
	if current && merged.Weak && g.Warn != nil {
		g.Warn(n, fmt.Sprintf("memnode %s: admitted without the registers of a majority; tokens now rest on clocks", n.name))
	}
}

// server identifies the store among the nodes of a group.
func (s *store) server() string { return fmt.Sprintf("%p", s) }

// memory identifies what the store remembers: since its start, or since it was
// restarted at that time.
func (s *store) memory(restarted time.Duration) string { return fmt.Sprintf("%p %d", s, restarted) }

func (s *store) quarantineEnd(g *node.Group) time.Duration {
	return s.restarted + g.MaxTTL + rule.Drift(g.MaxTTL)
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
