package memnode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"
)

// listener is a client whose waiters can be told, through one Node.
type listener struct {
	node   *Node
	notify func(waiter string)
}

// Listen implements node.Queuer. It does not block: on a node that is down it
// returns ErrDown, and the waiters are reachable after Restart. A client that
// could have no waiters is ErrInvalid. Notify is called in the goroutine whose
// operation notified the waiter, before that returns.
func (n *Node) Listen(_ context.Context, client string, notify func(waiter string)) error {
	if err := rule.CheckClient(client); err != nil {
		return n.errorf("listen", fmt.Errorf("%w: %w", node.ErrInvalid, err))
	}
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	// Close sets this before it locks the store: no listener is left behind.
	if n.closed.Load() {
		return n.errorf("listen", ErrClosed)
	}
	s.listeners[client] = append(s.listeners[client], listener{n, notify})
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

// listenersOf returns the listeners that can tell a waiter; none if it is empty.
func (s *store) listenersOf(waiter string) []listener {
	client, _, _ := strings.Cut(waiter, ":")
	return s.listeners[client]
}
