package history

import (
	"slices"
	"time"
)

// slack is how long after it was noted a fault may begin to strike.
const slack = int64(250 * time.Millisecond)

// fault is one fault event, and for how long it can do harm.
type fault struct {
	Event
	over int64 // when the fault was healed
	harm int64 // until when this can break an assumption
	// first is the index of the event that the fault began with: this one,
	// unless it was noted several times.
	first int
	vain  bool // it could not be injected
}

type faults []fault

// newFaults matches the faults with what heals them. When it is quiet all are over.
//
// A fault that was noted once does harm until it is healed. One that is noted
// again before strikes at moments: a clock that was set forward runs at the
// right rate until it is set back. Between two notes that both break an assumption
// it may do so at any time: they stand before and after the moment.
func newFaults(events []Event, quiet int64) faults {
	var all faults
	type place struct {
		fault string
		node  int
	}
	open := make(map[place][]int) // what was noted and is not over
	for _, e := range events {
		at := place{e.Fault, e.Node}
		switch e.Kind {
		case Fault:
			s := fault{Event: e, first: len(all), over: max(quiet, e.At)}
			if before := open[at]; len(before) > 0 {
				last := &all[before[len(before)-1]]
				last.harm = last.At + slack
				if e.Breaks != "" {
					last.harm = max(last.harm, e.At)
				}
				s.first = last.first
			}
			s.harm = s.over
			open[at] = append(open[at], len(all))
			all = append(all, s)
		case Healed:
			for _, i := range open[at] {
				s := &all[i]
				s.over, s.vain = e.At, e.Text != ""
				s.harm = min(s.harm, e.At)
			}
			delete(open, at)
		}
	}
	return all
}

// count counts the faults, each once, and those of which a part struck while held.
func (all faults) count(held func(at int64) bool) map[string]Count {
	counts, wasHeld := make(map[string]Count), make(map[int]bool)
	for i, s := range all {
		if s.vain {
			continue
		}
		count := counts[s.Fault]
		if s.first == i {
			count.All++
		}
		if !wasHeld[s.first] && held(s.At) {
			wasHeld[s.first] = true
			count.Held++
		}
		counts[s.Fault] = count
	}
	return counts
}

// active returns the kinds that were there at any time from one to another.
func (all faults) active(from, to int64) []string {
	var kinds []string
	for _, s := range all {
		if s.At <= to && s.over >= from {
			kinds = append(kinds, s.Fault)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// breaks returns the first assumption that was broken from one time to another,
// and when; "" if none was.
func (all faults) breaks(from, to int64) (assumption string, at int64) {
	for _, s := range all {
		if s.Breaks != "" && s.At <= to && s.harm >= from && (assumption == "" || max(s.At, from) < at) {
			assumption, at = s.Breaks, max(s.At, from)
		}
	}
	return assumption, at
}

// registersLost reports whether registers were lost on purpose before a time.
func (all faults) registersLost(before int64) bool {
	return slices.ContainsFunc(all, func(s fault) bool { return s.Breaks == RegistersSurvive && s.At <= before })
}

// assumptions returns those that were broken.
func (all faults) assumptions() []string {
	var broken []string
	for _, s := range all {
		if s.Breaks != "" {
			broken = append(broken, s.Breaks)
		}
	}
	slices.Sort(broken)
	return slices.Compact(broken)
}
