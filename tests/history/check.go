package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Check checks all promises. For a library without tokens, those of tokens,
// extensions and of the resource are not made: lost updates are listed and no
// violations. A history whose events do not fit together is a violation itself,
// and nothing else is checked.
func Check(h *History) Report { return examine(h, fencedMutex(), porcupineTimeout) }

func examine(h *History, model porcupine.Model, timeout time.Duration) Report {
	r, err := newRecord(h)
	if err != nil {
		report := Report{Header: h.Header, Checked: []string{Coherence}}
		report.Violations = []Violation{{Promise: Coherence, Text: err.Error()}}
		return report
	}
	x := &examination{record: r}
	x.report = Report{Header: h.Header, Begin: r.begin, End: r.end, Checked: []string{Coherence}}
	x.count()
	x.checks(Validity, x.validity)
	if h.Header.Tokens() {
		x.checks(Tokens, x.tokens)
		x.report.Checked = append(x.report.Checked, Extension)
		x.checks(Resource, x.resource)
		if h.Header.Locks == "lead" {
			x.checks(Following, x.following)
		}
	} else {
		x.resource()
	}
	if h.Header.Watched {
		x.checks(Healing, x.healing)
	}
	x.checks(Progress, x.progress)
	x.checks(Leftovers, x.leftovers)
	if h.Header.Tokens() {
		x.checks(Porcupine, func() { x.porcupine(model, timeout) })
	}
	byTime := func(a, b Violation) int { return cmp.Compare(a.At, b.At) }
	slices.SortStableFunc(x.report.Violations, byTime)
	slices.SortStableFunc(x.report.Excused, byTime)
	return x.report
}

func (x *examination) checks(promise string, run func()) {
	x.report.Checked = append(x.report.Checked, promise)
	run()
}

func (x *examination) count() {
	r := &x.report
	r.Unknown = x.unknown
	r.Assumptions = x.faults.assumptions()
	clients := make(map[int]bool)
	for i, e := range x.Events {
		switch e.Kind {
		case Acquire:
			clients[e.Client] = true
		case Acquired:
			r.Acquired++
			if x.of[i].shared {
				r.Shared++
			}
		case Downgraded:
			r.Downgraded++
		case Follows:
			r.Followed++
		case Failed:
			r.Failed++
		case Extended:
			r.Extended++
		case Wrote:
			r.Writes++
		case Refused:
			r.Refused++
		}
	}
	r.Clients = len(clients)
	r.Faults = x.faults.count(x.held)
}

func (x *examination) held(at int64) bool {
	return slices.ContainsFunc(x.tenures, func(t *tenure) bool { return t.start <= at && at < t.end() })
}

// validity looks at all pairs of holders. It knows the whole of a tenure, which check.Validity,
// told as things happen, does not. A client that is paused tells late of an extension. By then
// another one may seem to hold the lock.
func (x *examination) validity() {
	for i, b := range x.tenures {
		for _, a := range x.tenures[:i] {
			switch {
			case a.name != b.name || a.end() <= b.start || b.end() <= b.start:
			case a.sharedWith(b):
				x.report.Beside++
			default:
				x.overlap(a, b)
			}
		}
	}
}

// overlap reports that b began while a had the lock. A fault before a's
// acquisition began cannot have touched its leases.
func (x *examination) overlap(a, b *tenure) {
	assumption, _ := x.faults.breaks(a.asked, b.start)
	text := fmt.Sprintf("%q: %v acquires it %v after the start, while %v has it for another %v",
		b.name, b, x.since(b.start), a, time.Duration(a.end()-b.start))
	x.violated(b.start, Validity, assumption, text)
	x.report.Overlaps = append(x.report.Overlaps, Damage{
		At: b.start, Name: b.name, Text: text, Assumption: assumption,
		Faults: x.faults.active(a.asked, b.start),
	})
}
