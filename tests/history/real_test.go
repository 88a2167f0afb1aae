package history

import (
	"slices"
	"testing"
)

// A history of real servers: three clients, while a replica of one server was
// promoted in its place and another server was read-only. With any single lie in
// it, it is refused.
func TestRealHistory(t *testing.T) {
	read := func() *History {
		h, err := Read("testdata/promote.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	report := Check(read())
	if len(report.Violations) > 0 || report.Acquired != 37 || report.Writes != 213 || report.Faults["promote"].Held != 1 {
		t.Errorf("%d acquisitions, %d writes, strikes %v, violations %v", report.Acquired, report.Writes, report.Faults, report.Violations)
	}
	for _, lie := range []struct {
		name, promise string
		tell          func(e []Event)
	}{
		{"a write on an older value", "resource", func(e []Event) { last(e, Wrote).Base-- }},
		{"two holders with one token", "tokens", func(e []Event) {
			acquired := last(e, Acquired)
			i := slices.IndexFunc(e, func(o Event) bool { return o.Kind == Acquired && o.Name == acquired.Name && o.Token != acquired.Token })
			old := acquired.Token
			for j := range e {
				if e[j].Token == old && e[j].Name == acquired.Name {
					e[j].Token = e[i].Token
				}
			}
		}},
		{"a goroutine that is left", "leftovers", func(e []Event) { last(e, Closed).Value = 1 }},
		{"a validity that goes on", "validity", func(e []Event) {
			i := slices.IndexFunc(e, func(o Event) bool { return o.Kind == Acquired })
			e[i].Until = e[len(e)-1].At
			for j := range e {
				if e[j].Client == e[i].Client && e[j].Op == e[i].Op && (e[j].Kind == Release || e[j].Kind == Ended || e[j].Kind == Released) {
					e[j] = Event{At: e[j].At, Kind: Holds, Client: e[i].Client, Op: e[i].Op, Name: e[i].Name, Token: e[i].Token, Until: e[i].Until}
				}
			}
		}},
	} {
		h := read()
		lie.tell(h.Events)
		violations := Check(h).Violations
		if !slices.ContainsFunc(violations, func(v Violation) bool { return v.Promise == lie.promise }) {
			t.Errorf("%s: %v", lie.name, violations)
		}
	}
}

func last(events []Event, kind Kind) *Event {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Kind == kind {
			return &events[i]
		}
	}
	panic("no event " + kind)
}
