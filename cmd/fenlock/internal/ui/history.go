package ui

import (
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// What a history is bounded by, however long it lasts and whatever happens.
const (
	// sliceCount is how many slices of time it has.
	sliceCount = 120
	// maxSpans is how many changes of one node it has, the newest ones.
	maxSpans = 200
)

// slice is what was seen in a slice of time.
type slice struct {
	number  int64 // of the slice, counted from 1970
	waiting int   // the most at a time
	moves   int   // locks that went from one holder to another
}

// history is what was seen lately. It belongs to one goroutine.
type history struct {
	lasting time.Duration
	nodes   [][]span // of each node, oldest first
	slices  []slice  // oldest first; those in which nothing was seen are missing
}

// width is how long a slice is.
func (h *history) width() time.Duration { return max(h.lasting/sliceCount, time.Millisecond) }

// number is that of the slice that a time is in.
func (h *history) number(at time.Time) int64 { return at.UnixMilli() / h.width().Milliseconds() }

// record adds what was seen at a time: how each node does, how many wait, and how many locks
// went from one holder to another. It forgets what is too old.
func (h *history) record(at time.Time, nodes []span, waiting, moves int) {
	for i, s := range nodes {
		if i == len(h.nodes) {
			h.nodes = append(h.nodes, nil)
		}
		h.nodes[i] = recordSpan(h.nodes[i], s, at.Add(-h.lasting))
	}
	number := h.number(at)
	if n := len(h.slices); n == 0 || h.slices[n-1].number < number {
		h.slices = append(h.slices, slice{number: number})
	}
	last := &h.slices[len(h.slices)-1]
	last.waiting, last.moves = max(last.waiting, waiting), last.moves+moves
	first := 0
	for h.slices[first].number <= number-sliceCount {
		first++
	}
	h.slices = append(h.slices[:0], h.slices[first:]...)
}

// recordSpan adds what was seen last to the spans of a node, which begin with the one that has
// not ended before a time.
func recordSpan(spans []span, s span, since time.Time) []span {
	if n := len(spans); n > 0 && spans[n-1].from.Equal(s.from) {
		spans[n-1] = s
	} else {
		if n > 0 && s.seen {
			spans[n-1].to = s.from // there was nothing between
		}
		spans = append(spans, s)
	}
	first := max(len(spans)-maxSpans, 0)
	for first < len(spans)-1 && spans[first].to.Before(since) {
		first++
	}
	return append(spans[:0], spans[first:]...)
}

// outages returns how often and for how long a node did not vote, the last time left out if it
// has not ended.
func outages(spans []span, since time.Time) (times int, all time.Duration) {
	usable := func(s span) bool { return doctor.Standing{State: s.state}.Usable() }
	for i, s := range spans {
		if usable(s) {
			continue
		}
		j := i // of several in a row, which are one
		for j < len(spans) && !usable(spans[j]) && (j == i || spans[j].seen) {
			j++
		}
		if j == len(spans) {
			break
		}
		if i == 0 || usable(spans[i-1]) || !s.seen {
			times++
		}
		from := s.from
		if from.Before(since) {
			from = since
		}
		all += max(s.to.Sub(from), 0)
	}
	return times, all
}

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
