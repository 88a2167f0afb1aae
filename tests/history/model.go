package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A fenced mutex with explicit expiry, and the guarded resource beside it. All
// that it knows of locks is here; there is no time in it.
//
// The model is deterministic: an operation either can take effect in a state, in
// one way only, or cannot. What may or may not have taken effect is settled
// before, in operations.go.

type action string

const (
	acquire action = "acquire"
	release action = "release" // its client knows that it ended the tenure
	expire  action = "expire"  // the tenure ended somehow: derived
	use     action = "use"     // a read or a write that the guard accepted
	refuse  action = "refuse"  // one that it refused
)

// operation is porcupine's input. There is no output: history has only
// operations that have taken effect.
type operation struct {
	action action
	token  uint64
}

func (o operation) String() string { return fmt.Sprintf("%s(%d)", o.action, o.token) }

// mutex is the state. Tokens are positive, 0 is none.
type mutex struct {
	holder  uint64
	largest uint64 // ever acquired
	seen    uint64 // the largest that the resource was used with
}

// step returns the state after an operation, and whether it can be now.
func (m mutex) step(o operation) (mutex, bool) {
	switch o.action {
	case acquire:
		possible := m.holder == 0 && o.token > m.largest
		m.holder, m.largest = o.token, o.token
		return m, possible
	case release, expire:
		possible := m.holder == o.token
		m.holder = 0
		return m, possible
	case use:
		// Whether the token still holds the lock does not matter: a paused holder
		// may write as long as nobody newer did. That is what tokens are for.
		possible := m.seen <= o.token && o.token <= m.largest
		m.seen = o.token
		return m, possible
	case refuse:
		return m, o.token < m.seen
	}
	panic(fmt.Sprintf("history: no action %q", o.action))
}

func fencedMutex() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return mutex{} },
		Step: func(state, input, _ any) (bool, any) {
			next, possible := state.(mutex).step(input.(operation))
			return possible, next
		},
		DescribeOperation: func(input, _ any) string { return input.(operation).String() },
	}
}
