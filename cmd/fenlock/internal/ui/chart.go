package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/doctor"
)

// chart shows a history. It changes when a slice of time does, and not with each second.
type chart struct {
	Lasting string // for how long it goes back
	From    string // the clock at its left edge
	Seen    string // a path of bars, as high as a plot: when it was looked
	Waiting plot
	Moves   plot
	Nodes   []strip
}

// plot shows one figure in each slice.
type plot struct {
	Seen string // as in chart
	Path string // of bars that are one wide and at most plotHeight high; empty if nothing was seen but 0
	Top  int    // the highest
	Said string // in words
}

// plotHeight is the height of a plot, in units of its picture.
const plotHeight = 30

// strip shows how one node did.
type strip struct {
	Number int
	Seen   string // as in chart
	Parts  []stripPart
	Said   string
}

// stripPart is a time at which a node did not vote.
type stripPart struct {
	Class string // warn or bad
	X     string // its left edge, in slices
	Width string
	Title string
}

// chartOf shows a history at a time.
func chartOf(h *history, now time.Time) *chart {
	last := h.number(now)
	first := last - sliceCount + 1
	begin := time.UnixMilli(first * h.width().Milliseconds())
	c := &chart{Lasting: lately(h.lasting), From: begin.Format("15:04"), Seen: h.lookedAt(first)}
	if h.lasting > 24*time.Hour {
		c.From = begin.Format("Jan 2, 15:04")
	}
	waiting, moves := make([]int, sliceCount), make([]int, sliceCount)
	all := 0
	for _, s := range h.slices {
		if i := s.number - first; i >= 0 && i < sliceCount {
			waiting[i], moves[i] = s.waiting, s.moves
			all += s.moves
		}
	}
	c.Waiting, c.Moves = plotOf(waiting), plotOf(moves)
	c.Waiting.Said, c.Moves.Said = "No waiters", "No handovers"
	if c.Waiting.Top > 0 {
		c.Waiting.Said = fmt.Sprintf("Waiting: at most %s at a time", thousands(c.Waiting.Top))
	}
	if all > 0 {
		c.Moves.Said = fmt.Sprintf("Handovers: %s, at most %s in %s", thousands(all), thousands(c.Moves.Top),
			lasting(h.width()))
	}
	c.Waiting.Seen, c.Moves.Seen = c.Seen, c.Seen
	for i, spans := range h.nodes {
		s := h.stripOf(i+1, spans, first)
		s.Seen = c.Seen
		c.Nodes = append(c.Nodes, s)
	}
	return c
}

// lookedAt draws when it was looked, from a slice on. What is between two looks counts if they
// are near enough.
func (h *history) lookedAt(first int64) string {
	near := max(unseen.Milliseconds()/h.width().Milliseconds(), 1)
	var b strings.Builder
	for i := 0; i < len(h.slices); {
		from := h.slices[i].number
		for i++; i < len(h.slices) && h.slices[i].number-h.slices[i-1].number <= near; i++ {
		}
		width := h.slices[i-1].number - from + 1
		fmt.Fprintf(&b, "M%d %dv-%dh%dv%dz", from-first, plotHeight, plotHeight, width, plotHeight)
	}
	return b.String()
}

// plotOf draws a bar for each value that is not 0.
func plotOf(values []int) (p plot) {
	p.Top = slices.Max(values)
	var b strings.Builder
	for i, v := range values {
		if v > 0 {
			height := max(float64(plotHeight*v)/float64(p.Top), 1)
			fmt.Fprintf(&b, "M%d %dv-%.1fh1v%.1fz", i, plotHeight, height, height)
		}
	}
	p.Path = b.String()
	return p
}

// stripOf draws when a node did not vote. A slice is the least that can be seen.
func (h *history) stripOf(number int, spans []span, first int64) strip {
	s := strip{Number: number}
	at := func(t time.Time) float64 { return float64(max(h.number(t)-first, 0)) }
	for i, sp := range spans {
		if (doctor.Standing{State: sp.state}).Usable() {
			continue
		}
		to := min(at(sp.to)+1, sliceCount)
		part := stripPart{Class: "bad", X: fmt.Sprint(at(sp.from)), Width: fmt.Sprint(to - at(sp.from))}
		if sp.state == doctor.Out {
			part.Class = "warn"
		}
		part.Title = fmt.Sprintf("%d: %s from %s", number, strings.TrimPrefix(stateText(sp.state), "is "),
			sp.from.Format(time.TimeOnly))
		if !sp.seen {
			part.Title += " or before"
		}
		if i < len(spans)-1 {
			part.Title += " to " + sp.to.Format(time.TimeOnly)
		}
		s.Parts = append(s.Parts, part)
	}
	s.Said = "Voted whenever it was looked at"
	if len(s.Parts) > 0 {
		var titles []string
		for _, p := range s.Parts {
			titles = append(titles, p.Title)
		}
		s.Said = strings.Join(titles, "; ")
	}
	return s
}

// lasting is a round time, in its largest unit.
func lasting(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d >= time.Second && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return d.String()
}

// lately is lasting, after "the last".
func lately(d time.Duration) string {
	if d == time.Hour {
		return "hour"
	}
	return lasting(d)
}

// earlier says how often a node did not vote before, "" if it always did.
func earlier(spans []span, lasted time.Duration, now time.Time) string {
	times, all := outages(spans, now.Add(-lasted))
	switch {
	case times == 0:
		return ""
	case times == 1:
		return fmt.Sprintf("in the last %s: once without a vote, for %s", lately(lasted), passed(all))
	}
	return fmt.Sprintf("in the last %s: %s times without a vote, for %s in all", lately(lasted), thousands(times),
		passed(all))
}
