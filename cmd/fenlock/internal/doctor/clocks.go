package doctor

import (
	"slices"
	"time"

	"github.com/fenlock/fenlock/admin"
	"github.com/fenlock/fenlock/node"
)

// Bounds of what clocks may do before an operator should know.
const (
	mostOffset = time.Second // between two wall clocks
	// The rules allow for clocks that run apart by a hundredth (rule.Drift). A wall clock
	// that is being set right runs up to a thousandth wrong.
	mostRate = 0.01
)

// Offset returns how far a node's wall clock is ahead of this machine's, and how far that
// may be wrong; false if its clock is not known.
func Offset(info admin.NodeInfo) (ahead, doubt time.Duration, known bool) {
	c := info.Examination.Clock
	if c.Store.IsZero() || c.Here.IsZero() {
		return 0, 0, false
	}
	return c.Store.Sub(c.Here.Round(0)), info.Examination.RoundTrip/2 + c.Within, true
}

// clocks finds clocks that show the wrong time, or run at the wrong rate.
func (g Group) clocks(of report) {
	g.offsets(of)
	for i, info := range g.Nodes {
		if i >= len(g.Later) {
			break
		}
		if rate, span, known := rateOf(info, g.Later[i]); known {
			of(node.Found("clock-rate", node.Error,
				"In %v its clock ran %+.1f %% wrong, or was set. That two never hold a lock rests on clocks that run at the same rate, within 1 %%.", span.Round(100*time.Millisecond), 100*rate).
				Do("Look again. If it stays: what sets its clock (chronyc tracking, timedatectl)? Is it a virtual machine that is stopped now and then? Until it is mended, end this server."), info.Node)
		}
	}
}

// offsets compares the wall clocks of the servers with each other and with this machine's.
func (g Group) offsets(of report) {
	type clock struct {
		node         string // empty: this machine
		ahead, doubt time.Duration
	}
	clocks := []clock{{}}
	for _, info := range g.Nodes {
		if ahead, doubt, known := Offset(info); known {
			clocks = append(clocks, clock{info.Node, ahead, doubt})
		}
	}
	sorted := slices.SortedFunc(slices.Values(clocks), func(a, b clock) int { return int(a.ahead - b.ahead) })
	middle := sorted[(len(sorted)-1)/2].ahead
	if len(clocks) == 2 {
		middle = 0 // it cannot be told which of the two is right
	}
	for _, c := range clocks {
		off := c.ahead - middle
		if off.Abs() <= mostOffset+c.doubt {
			continue
		}
		by, direction := off.Abs().Round(100*time.Millisecond), "ahead of"
		if off < 0 {
			direction = "behind"
		}
		switch {
		case c.node == "":
			of(node.Found("clock-here", node.Warning, "The clock of this machine is %v %s the servers'. Its clients' tokens begin there, which costs others a round trip more.", by, direction).
				Do("Set it right: timedatectl, chronyc tracking."))
		case len(clocks) == 2:
			of(node.Found("clock-offset", node.Warning, "Its clock is %v %s this machine's.", by, direction).
				Do("Set the wrong one right: timedatectl, chronyc tracking."), c.node)
		default:
			of(node.Found("clock-offset", node.Warning,
				"Its clock is %v %s most others'. Locks are safe; but when it is set while the server runs, the leases there end too early (forward) or stay too long (back), and when it is set forward soon after a start, the server votes too early.", by, direction).
				Do(
					"End this server, set the clock right (timedatectl, chronyc tracking), and start it again: one server at a time."), c.node)
		}
	}
}

// rateOf returns by which part of the time a clock has run too fast between two readings,
// if that is more than it may.
func rateOf(before, after admin.NodeInfo) (rate float64, span time.Duration, wrong bool) {
	a, b := before.Examination, after.Examination
	if a.Clock.Store.IsZero() || b.Clock.Store.IsZero() || a.Server != b.Server {
		return 0, 0, false
	}
	span = b.Clock.Here.Sub(a.Clock.Here)
	if span <= 0 {
		return 0, 0, false
	}
	wrongBy := b.Clock.Store.Sub(a.Clock.Store) - span
	doubt := (a.RoundTrip+b.RoundTrip)/2 + a.Clock.Within + b.Clock.Within
	return float64(wrongBy) / float64(span), span, float64(wrongBy.Abs()-doubt) > mostRate*float64(span)
}
