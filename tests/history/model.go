package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// A fenced mutex with explicit expiry that may be shared, and the guarded resource beside it.
// All that it knows of locks is here; there is no time in it.
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

	acquireShared action = "acquire shared"
	downgrade     action = "downgrade"      // the exclusive holder shares it from now on
	leave         action = "leave"          // release or expire, of a sharer
	look          action = "look"           // a read, by a sharer, that the guard accepted
	refuseLook    action = "refuse to look" // one that it refused
)

// operation is porcupine's input. There is no output: history has only
// operations that have taken effect.
type operation struct {
	action action
	token  uint64
	id     int // of the tenure, for those that share the name: their tokens may be the same
}

func (o operation) String() string { return fmt.Sprintf("%s(%d)", o.action, o.token) }

// mutex is the state. Tokens are positive, 0 is none.
type mutex struct {
	holder  uint64  // the exclusive holder
	readers readers // those that share it
	largest uint64  // ever acquired
	alone   bool    // no other client may have the largest
	read    uint64  // the largest that a sharer has used the resource with
	seen    uint64  // the same of those who had it alone
}

// step returns the state after an operation, and whether it can be now.
func (m mutex) step(o operation) (mutex, bool) {
	switch o.action {
	case acquire:
		possible := m.holder == 0 && m.readers == "" && o.token > m.largest
		m.holder, m.largest, m.alone = o.token, o.token, true
		return m, possible
	case acquireShared:
		possible := m.holder == 0 && (o.token > m.largest || o.token == m.largest && !m.alone)
		m.readers, m.largest, m.alone = m.readers.with(o.id), o.token, false
		return m, possible
	case downgrade:
		possible := m.holder == o.token
		m.holder, m.readers = 0, m.readers.with(o.id)
		m.alone = m.alone && o.token != m.largest
		return m, possible
	case leave:
		possible := m.readers.have(o.id)
		m.readers = m.readers.without(o.id)
		return m, possible
	case release, expire:
		possible := m.holder == o.token
		m.holder = 0
		return m, possible
	case use:
		// Whether the token still holds the lock does not matter: a paused holder may write as long
		// as no newer one did. That is what tokens are for.
		possible := max(m.seen, m.read) <= o.token && o.token <= m.largest
		m.seen = o.token
		return m, possible
	case look: // in no order with others who share the name
		possible := m.seen <= o.token && o.token <= m.largest
		m.read = max(m.read, o.token)
		return m, possible
	case refuse:
		return m, o.token < max(m.seen, m.read)
	case refuseLook:
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
