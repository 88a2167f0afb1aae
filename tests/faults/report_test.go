//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/runner"
	"github.com/fenlock/fenlock/tests/history"
)

// twoKinds is a campaign of one slot that tries two kinds together, and came to
// what the function makes of it.
func twoKinds(change func(o *runner.Outcome)) summary {
	first, second := kinds.All[0].Name, kinds.All[1].Name
	c := campaign{Job: runner.Job{Setup: plan.Full(16), Seed: 1}, histories: 1}
	c.Kinds = kinds.All[:2]
	o := runner.Outcome{Seed: 1, Covered: [][]string{{second, first}}, Command: "do it", Path: "file"}
	o.Report.Faults = map[string]history.Count{first: {All: 4, Held: 1}, second: {All: 4, Held: 1}}
	change(&o)
	return c.sum([]runner.Outcome{o})
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *runner.Outcome)
		want   string
	}{
		"well": {func(o *runner.Outcome) {}, ""},
		"violation": {func(o *runner.Outcome) { o.Report.Violations = make([]history.Violation, 12) },
			"1 of 1 histories failed"},
		"excused": {func(o *runner.Outcome) { o.Report.Excused = make([]history.Violation, 12) }, ""},
		"crash":   {func(o *runner.Outcome) { o.Problems = []string{"client 3"} }, "1 of 1 histories failed"},
		"idle": {func(o *runner.Outcome) { o.Report.Faults[kinds.All[1].Name] = history.Count{All: 4} },
			kinds.All[1].Name},
		"uncovered": {func(o *runner.Outcome) { o.Covered = nil }, "1 pairs of faults never overlapped"},
	} {
		s := twoKinds(c.change)
		err := s.verdict()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		var text strings.Builder
		printOutcome(&text, s.outcomes[0])
		s.print(&text)
		for _, want := range []string{"again: do it", "go run ./history/check file"} {
			if strings.Contains(text.String(), want) != s.outcomes[0].Failed() {
				t.Errorf("%s: %q in\n%s", name, want, &text)
			}
		}
	}
	few := twoKinds(func(o *runner.Outcome) {
		o.Covered = nil
		o.Report.Faults = nil
	})
	few.Kinds, few.Seconds = kinds.All, 3
	if err := few.verdict(); err != nil {
		t.Errorf("one slot is too few to tell: %v", err)
	}
}

func TestComparison(t *testing.T) {
	o := runner.Outcome{Leftover: 3,
		Report: history.Report{Acquired: 100, Overlaps: make([]history.Damage, 2), Lost: make([]history.Damage, 1)}}
	kill := rows(kinds.All)[1+kinds.Index(kinds.All, "kill")]
	for want, on := range map[string][]cluster.Persistence{
		"| kill | redsync | yes | 200 | 4 | 2 | 6 |":               {cluster.Always, cluster.Always},
		"| kill | redsync | no | 200 | 4 | 2 | 6 |":                {cluster.Off, cluster.Everysec},
		"| kill | redsync | with fsync always | 200 | 4 | 2 | 6 |": {cluster.Off, cluster.Always},
	} {
		if got := line(kill, library.Redsync, on, []runner.Outcome{o, o}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := line(kill, library.Fenlock, []cluster.Persistence{cluster.Off}, []runner.Outcome{o}); !strings.Contains(got,
		"| fenlock | yes |") {
		t.Error(got)
	}
	o.Problems = []string{"crash"}
	if got := line(kill, library.Fenlock, []cluster.Persistence{cluster.Off}, []runner.Outcome{o}); !strings.Contains(got,
		"1 problems") {
		t.Error(got)
	}
}
