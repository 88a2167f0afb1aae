package admission

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fenlock/fenlock/node"
)

// group is the quorum group of a node.
type group struct {
	self node.Node

	joined atomic.Pointer[node.Group] // nil before that
	mu     sync.Mutex
	warned string // the last warning, so that each is given once
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

// Warn tells the group, unless that was the last warning.
func (g *group) Warn(message string) {
	to := g.joined.Load()
	g.mu.Lock()
	// The time of return moves by rounding, which is no other warning.
	reason, _, _ := strings.Cut(message, ";")
	again := reason == g.warned
	g.warned = reason
	g.mu.Unlock()
	if to != nil && to.Warn != nil && !again {
		to.Warn(g.self, message)
	}
}

// forgetWarning lets the next warning be given, whatever the last one was.
func (g *group) forgetWarning() {
	g.mu.Lock()
	g.warned = ""
	g.mu.Unlock()
}

// warnIfMisconfigured passes err through, and tells the group if a person must
// mend it.
func (g *group) warnIfMisconfigured(err error) error {
	if errors.Is(err, node.ErrMisconfigured) {
		g.Warn(err.Error())
	}
	return err
}
