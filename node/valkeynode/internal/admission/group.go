package admission

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fenlock/fenlock/node"
)

// group is the quorum group of a node.
type group struct {
	self node.Node

	joined atomic.Pointer[node.Group] // nil before that
	mu     sync.Mutex
}

// join sets the group, once.
func (g *group) join(to node.Group) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	same := func(a, b node.Node) bool { return a.Engine() == b.Engine() } // through wrappers
	old := g.joined.Load()
	if old != nil && (!slices.EqualFunc(old.Nodes, to.Nodes, same) || old.MaxTTL != to.MaxTTL) {
		return errors.New("it belongs to another group already, with other nodes or another MaxTTL")
	}
	g.joined.Store(&to)
	return nil
}

// Warn tells the group what no answer does.
func (g *group) Warn(message string) {
	if to := g.joined.Load(); to != nil && to.Warn != nil {
		to.Warn(g.self, message)
	}
}
