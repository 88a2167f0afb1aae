package ui

import (
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// unseen is for how long nothing may have been seen between two pictures that follow one
// another: a machine that slept has seen nothing.
const unseen = time.Minute

// span is a time during which a node did as it did.
type span struct {
	state    doctor.State
	from, to time.Time // the first and the last picture of it
	seen     bool      // its beginning was seen: else it may have begun before
}

// next returns the span that a node's state at a time belongs to. No span is before the first one.
func (s span) next(state doctor.State, at time.Time) span {
	known := !s.to.IsZero() && at.Sub(s.to) < unseen
	if known && s.state == state {
		s.to = at
		return s
	}
	return span{state: state, from: at, to: at, seen: known}
}

// stateText is how a node does, after its name.
func stateText(s doctor.State) string {
	switch s {
	case doctor.Votes:
		return "votes"
	case doctor.Ready:
		return "is ready"
	case doctor.Out:
		return "does not vote"
	}
	return "is " + string(s)
}
