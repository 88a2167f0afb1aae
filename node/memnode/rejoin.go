package memnode

import (
	"context"
	"fmt"
	"maps"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/rule"
)

// Crash makes the node lose everything it knew. Until Restart, every operation
// of every client returns an error with ErrDown, and no waiter is notified.
func (n *Node) Crash() {
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.empty, s.terms, s.Store = true, nil, admit.Terms{}, rule.Store{Out: true}
}

// Restart brings a crashed node up again, empty and not admitted. It answers Rejoining until Admit
// is called. If it was joined to a group, it answers so until the group's MaxTTL has passed and the
// registers could be rebuilt from the others. Each listener is told that notifications may have
// been missed. It does nothing to a node that is up.
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
func (n *Node) Join(g node.Group) error { return n.errorf("join", n.admission.Join(g)) }

// Admission returns what has the node admitted, for the other nodes of its group.
func (n *Node) Admission() *admit.Admission { return n.admission }

// Registers implements node.Rejoiner.
func (n *Node) Registers(ctx context.Context) (node.Registers, error) {
	if err := n.enter(ctx, "registers"); err != nil {
		return node.Registers{}, err
	}
	defer n.store.mu.Unlock()
	s := n.store
	return node.Registers{Server: s.server(), Memory: s.memory(), Admitted: !s.Out,
		Empty: s.empty, MaxTTL: s.terms.MaxTTL, Members: s.terms.Members, Tokens: maps.Clone(s.Registers)}, nil
}

// admission is what package admit asks the store.
type admission struct{ *Node }

// Facts implements admit.Store. A store in memory has no mark that outlives a loss: it is out, or
// it is not. The time for which it is out counts from its start.
func (n admission) Facts(ctx context.Context) (admit.Facts, error) {
	if err := n.enter(ctx, "look"); err != nil {
		return admit.Facts{}, err
	}
	defer n.store.mu.Unlock()
	return n.store.facts(), nil
}

// facts is what the store says of itself. The caller holds its mutex.
func (s *store) facts() admit.Facts {
	return admit.Facts{Server: s.server(), Memory: s.memory(), Terms: s.terms,
		Votes: !s.Out, Marked: !s.Out, Recorded: true, // New has it admitted, so none is ever new
		Counted: true, Out: s.clock() - s.restarted, Cause: node.Restarted, Untouched: true, Empty: s.empty,
		State: s.restarted}
}

// Note implements admit.Store: the store counts from its start.
func (n admission) Note(context.Context, admit.Facts) (bool, error) { return true, nil }

// Raise implements admit.Store.
func (n admission) Raise(ctx context.Context, _ admit.Facts, tokens map[int]fence.Token) error {
	if err := n.enter(ctx, "raise"); err != nil {
		return err
	}
	defer n.store.mu.Unlock()
	n.store.Raise(tokens)
	return nil
}

// Mark implements admit.Store.
func (n admission) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	if err := n.enter(ctx, "admit"); err != nil {
		return false, err
	}
	defer n.store.mu.Unlock()
	s := n.store
	// It may have crashed again meanwhile, or have been admitted.
	if !s.Out || s.restarted != f.State || s.terms.Check(own) != nil {
		return false, nil
	}
	s.Out, s.empty, s.terms = false, empty, own
	return true, nil
}

// server identifies the store among the nodes of a group.
func (s *store) server() string { return fmt.Sprintf("%p", s) }

// memory identifies what the store remembers: since its start, or since it was last restarted.
func (s *store) memory() string { return fmt.Sprintf("%p %d", s, s.restarted) }

// enter locks the store, or says why the operation must not be executed.
func (n *Node) enter(ctx context.Context, op string) error {
	n.store.mu.Lock()
	err := ctx.Err()
	switch {
	case n.closed.Load():
		err = ErrClosed
	case n.store.down:
		err = ErrDown
	case err == nil:
		return nil
	}
	n.store.mu.Unlock()
	return n.errorf(op, err)
}
