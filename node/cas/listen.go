package cas

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// Queued is a Node whose store can tell clients something: a node.Queuer as well. Make one with NewQueued.
type Queued struct{ *Node }

// NewQueued is New for a Teller.
func NewQueued(self node.Node, t Teller, c Config) Queued {
	n := New(self, t, c)
	n.teller, n.lines = t, &lines{of: make(map[string]*line)}
	return Queued{n}
}

const (
	// How long an Attend that failed is not tried again: twice as long after each failure, give or take a
	// quarter.
	minRelisten = 50 * time.Millisecond
	maxRelisten = 2 * time.Second
)

// Listen implements node.Queuer.
func (n Queued) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.Fail("listen", err)
	}
	h := &Hearing{client: client, notify: notify, line: n.lines.add(client), first: make(chan error, 1), told: make(map[notice]bool)}
	if err := n.life.Spawn(func() { n.attend(h) }); err != nil {
		return n.Fail("listen", err)
	}
	select {
	case err := <-h.first:
		return n.Fail("listen", err, ctx, n.life)
	case <-ctx.Done():
		return n.Fail("listen", ctx.Err())
	}
}

// attend listens, again and again, until the node is closed.
func (n Queued) attend(h *Hearing) {
	wait := minRelisten
	for n.life.Err() == nil {
		h.attends = false
		err := n.teller.Attend(n.life, h)
		if h.attends {
			wait = minRelisten
		}
		h.answer(err)
		engine.Pause(n.life, time.Duration((0.75+rand.Float64()/2)*float64(wait)))
		wait = min(2*wait, maxRelisten)
	}
	h.answer(engine.ErrClosed)
}
