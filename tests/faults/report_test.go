//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/fenlock/fenlock/tests/history"
)

// twoKinds is a campaign of one slot that tries two kinds together, and came to
// what the function makes of it.
func twoKinds(change func(o *outcome)) summary {
	c := campaign{job: job{setup: setup{seconds: 16, kinds: kinds[:2], nodes: 5, ttl: groupTTL}, seed: 1}, histories: 1}
	o := outcome{seed: 1, covered: [][]string{{kinds[1].name, kinds[0].name}}, command: "do it", path: "file"}
	o.report.Strikes = map[string]history.Strikes{kinds[0].name: {All: 4, Held: 1}, kinds[1].name: {All: 4, Held: 1}}
	change(&o)
	return c.sum([]outcome{o})
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *outcome)
		want   string
	}{
		"well":      {func(o *outcome) {}, ""},
		"violation": {func(o *outcome) { o.report.Violations = make([]history.Violation, 12) }, "1 of 1 histories failed"},
		"excused":   {func(o *outcome) { o.report.Excused = make([]history.Violation, 12) }, ""},
		"crash":     {func(o *outcome) { o.problems = []string{"client 3"} }, "1 of 1 histories failed"},
		"idle":      {func(o *outcome) { o.report.Strikes[kinds[1].name] = history.Strikes{All: 4} }, kinds[1].name},
		"uncovered": {func(o *outcome) { o.covered = nil }, "1 pairs of faults never overlapped"},
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
			if strings.Contains(text.String(), want) != s.outcomes[0].failed() {
				t.Errorf("%s: %q in\n%s", name, want, &text)
			}
		}
	}
	few := twoKinds(func(o *outcome) {
		o.covered = nil
		o.report.Strikes = nil
	})
	few.kinds, few.seconds = kinds, 3
	if err := few.verdict(); err != nil {
		t.Errorf("one slot is too few to tell: %v", err)
	}
}

func TestComparison(t *testing.T) {
	o := outcome{stranded: 3, report: history.Report{Acquired: 100, Overlaps: make([]history.Damage, 2), Lost: make([]history.Damage, 1)}}
	var kill row
	for _, r := range rows(kinds) {
		if r.name == "kill" {
			kill = r
		}
	}
	for want, on := range map[string][]persistence{
		"| kill | redsync | yes | 200 | 4 | 2 | 6 |":               {always, always},
		"| kill | redsync | no | 200 | 4 | 2 | 6 |":                {off, everysec},
		"| kill | redsync | with fsync always | 200 | 4 | 2 | 6 |": {off, always},
	} {
		if got := line(kill, libraryRedsync, on, []outcome{o, o}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := line(kill, libraryFenlock, []persistence{off}, []outcome{o}); !strings.Contains(got, "| fenlock | yes |") {
		t.Error(got)
	}
	o.problems = []string{"crash"}
	if got := line(kill, libraryFenlock, []persistence{off}, []outcome{o}); !strings.Contains(got, "1 problems") {
		t.Error(got)
	}
}
