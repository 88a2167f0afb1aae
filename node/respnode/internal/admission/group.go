package admission

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
)

// group is the quorum group of a node.
type group struct {
	self node.Node

	joined atomic.Pointer[membership] // nil before that
	mu     sync.Mutex
}

// membership is a group that was joined.
type membership struct {
	node.Group
	terms command.Terms
}

// join sets the group, once, with its nodes as clients name them.
func (g *group) join(to node.Group, members []string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	same := func(a, b node.Node) bool { return a.Engine() == b.Engine() } // through wrappers
	old := g.joined.Load()
	if old != nil && (!slices.EqualFunc(old.Nodes, to.Nodes, same) || old.MaxTTL != to.MaxTTL) {
		return errors.New("it belongs to another group already, with other nodes or another MaxTTL")
	}
	g.joined.Store(&membership{to, command.Terms{MaxTTL: to.MaxTTL, Members: strings.Join(members, " ")}})
	return nil
}

// Warn tells the group what no answer does.
func (g *group) Warn(message string) {
	if to := g.joined.Load(); to != nil && to.Warn != nil {
		to.Warn(g.self, message)
	}
}
