package memnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// queue is the line of a name, and until when it is remembered.
type queue struct {
	line    rule.Line
	expires time.Duration
}

// listener is a client whose waiters can be told, through one Node.
type listener struct {
	node  *Node
	event func(waiter string)
}

// Listen implements node.Queuer. It does not block: on a node that is down it
// returns ErrDown, and the waiters are reachable after Restart. A client that
// could have no waiters is ErrInvalid. Event is called in the goroutine whose
// operation made the call, before that returns.
func (n *Node) Listen(_ context.Context, client string, event func(waiter string)) error {
	if err := rule.CheckPlace(node.Place{Waiter: client + ":0"}); err != nil {
		return n.errorf("listen", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	// Close sets this before it locks the store: no listener is left behind.
	if n.closed.Load() {
		return n.errorf("listen", ErrClosed)
	}
	s.listeners[client] = append(s.listeners[client], listener{n, event})
	if s.down {
		return n.errorf("listen", ErrDown)
	}
	return nil
}

// unlisten removes the listeners of a node. It copies what it shortens: others
// may be telling them without the mutex.
func (s *store) unlisten(n *Node) {
	for client, of := range s.listeners {
		of = slices.DeleteFunc(slices.Clone(of), func(l listener) bool { return l.node == n })
		if len(of) > 0 {
			s.listeners[client] = of
		} else {
			delete(s.listeners, client)
		}
	}
}

// listenersOf returns those who can tell a waiter, or none for nobody.
func (s *store) listenersOf(waiter string) []listener {
	client, _, _ := strings.Cut(waiter, ":")
	return s.listeners[client]
}

// answer turns a reply of the rules into one of the node.
func (v *visit) answer(r rule.Reply) node.Answer {
	a := node.Answer{Status: r.Status, Register: r.Register}
	if a.Status == node.Held {
		a.HeldBy, a.Remaining = v.entry.Holder.Label(), v.entry.Expires-v.now
		a.Ahead, a.Clock = v.line.Ahead(v.waiter), v.now
	}
	return a
}
