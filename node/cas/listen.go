package cas

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
)

// Queued is a Node whose store can tell clients something: a node.Queuer as well. Make one with
// NewQueued.
type Queued struct{ *Node }

// NewQueued is New for a Teller.
func NewQueued(self node.Node, t Teller, c Config) Queued {
	n := New(self, t, c)
	n.teller, n.lines = t, &lines{of: make(map[string]*line)}
	return Queued{n}
}

// Listen implements node.Queuer.
func (n Queued) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	h := &Hearing{told: make(map[notice]bool)}
	return n.Fail("listen", engine.Listen(ctx, n.life, client, notify,
		func(life context.Context, l *engine.Listener) error {
			if h.listener == nil {
				h.listener, h.line = l, n.lines.add(client)
			}
			return n.teller.Attend(life, h)
		}), ctx, n.life)
}
