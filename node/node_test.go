package node_test

import (
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
)

func TestWords(t *testing.T) {
	var ops, statuses []string
	for op := range node.ForceRelease + 2 {
		ops = append(ops, op.String())
	}
	for s := range node.Rejoining + 2 {
		statuses = append(statuses, s.String())
	}
	if got := strings.Join(ops, ", "); got != "none, acquire, confirm, extend, release, force release, op(6)" {
		t.Error(got)
	}
	if got := strings.Join(statuses, ", "); got != "unknown, granted, held, outrun, lost, rejoining, status(6)" {
		t.Error(got)
	}
}

// engine is an engine of all kinds.
type engine struct {
	node.Ordered
	node.Queuer
	node.Rejoiner
	node.Admin
}

func (e *engine) Engine() any { return e }

// A wrapper that embeds a Node and overrides Do is asked by Do, whatever it wraps, and
// is found to be what the engine is besides.
func TestWrapper(t *testing.T) {
	var w node.Node = struct{ node.Node }{&engine{}}
	if _, starts := w.(node.Starter); starts {
		t.Error("a wrapper can be started, and so its Do passed over")
	}
	_, queues := w.Engine().(node.Queuer)
	_, rejoins := w.Engine().(node.Rejoiner)
	_, shows := w.Engine().(node.Admin)
	if !queues || !rejoins || !shows {
		t.Errorf("the engine keeps queues %v, rejoins %v, shows %v; want all", queues, rejoins, shows)
	}
}
