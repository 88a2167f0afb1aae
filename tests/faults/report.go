//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fenlock/fenlock/tests/history"
)

// mostPrinted is how many violations of a history are printed; the check of its
// file prints all.
const mostPrinted = 10

// printOutcome prints the line of a history, and what is wrong with it.
func printOutcome(out io.Writer, o outcome) {
	r, struck, held := o.report, 0, 0
	for _, s := range r.Strikes {
		struck, held = struck+s.All, held+s.Held
	}
	fmt.Fprintf(out, "seed %d: %d acquisitions, %d extensions, %d writes, %d refused, %d strikes (%d while held), %d client processes, %v\n",
		o.seed, r.Acquired, r.Extended, r.Writes, r.Refused, struck, held, r.Clients, o.took.Round(100*time.Millisecond))
	if !o.failed() {
		return
	}
	for i, v := range r.Violations {
		if i == mostPrinted {
			fmt.Fprintf(out, "  ... and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(out, "  VIOLATION of %s: %s\n", v.Promise, v.Text)
	}
	for _, p := range o.problems {
		fmt.Fprintf(out, "  PROBLEM: %s\n", strings.ReplaceAll(p, "\n", "\n    "))
	}
	fmt.Fprintf(out, "  again: %s\n", o.command)
	if o.path != "" {
		fmt.Fprintf(out, "  check the file again: go run ./history/check %s\n", o.path)
	}
}

// summary is what a campaign came to.
type summary struct {
	campaign
	outcomes []outcome
	reports  []history.Report
	struck   map[string]history.Strikes
	covered  map[string]int // pairs, by pairKey
}

func pairKey(pair []string) string {
	pair = slices.Clone(pair)
	slices.Sort(pair)
	return strings.Join(pair, " + ")
}

func (c campaign) sum(outcomes []outcome) summary {
	s := summary{campaign: c, outcomes: outcomes, struck: make(map[string]history.Strikes), covered: make(map[string]int)}
	for _, o := range outcomes {
		s.reports = append(s.reports, o.report)
		for name, n := range o.report.Strikes {
			t := s.struck[name]
			t.All, t.Held = t.All+n.All, t.Held+n.Held
			s.struck[name] = t
		}
		for _, pair := range o.covered {
			s.covered[pairKey(pair)]++
		}
	}
	return s
}

// uncovered returns the pairs that never overlapped.
func (s summary) uncovered() (all []string) {
	for _, pair := range s.pairs() {
		if s.covered[pairKey(pair)] == 0 {
			all = append(all, pairKey(pair))
		}
	}
	return all
}

// enough reports whether each pair was dealt to some slot, and so whether what
// was not tried is a failure.
func (s summary) enough() bool { return s.histories*s.slots() >= len(s.pairs()) }

// tried is how often each kind was dealt to a slot: one that was tried so often
// should have struck while a lock was held.
func (s summary) tried() map[string]int {
	n := make(map[string]int)
	for i := range s.histories {
		for _, slot := range newPlan(s.seed+uint64(i), s.setup).slots {
			for _, t := range slot.strikes {
				n[t.kind.name]++
			}
		}
	}
	return n
}

// idle are the kinds that struck no lock, although they were tried often enough.
func (s summary) idle() []string {
	const often = 3
	var expected []string
	tried := s.tried()
	for _, name := range names(s.kinds) {
		if tried[name] >= often {
			expected = append(expected, name)
		}
	}
	return history.Missing(s.reports, expected)
}

func (s summary) print(out io.Writer) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "kind of fault\tstruck\twhile a lock was held")
	for _, name := range sortedKinds(s.struck) {
		fmt.Fprintf(table, "%s\t%d\t%d\n", name, s.struck[name].All, s.struck[name].Held)
	}
	table.Flush()

	var sums history.Report
	excused, stranded := make(map[string]int), 0
	failed := 0
	for _, o := range s.outcomes {
		r := o.report
		sums.Acquired, sums.Extended, sums.Writes = sums.Acquired+r.Acquired, sums.Extended+r.Extended, sums.Writes+r.Writes
		sums.Refused, sums.Clients, sums.Operations = sums.Refused+r.Refused, sums.Clients+r.Clients, sums.Operations+r.Operations
		stranded += o.stranded
		for _, v := range r.Excused {
			excused[v.Promise+", while not: "+v.Assumption]++
		}
		if o.failed() {
			failed++
		}
	}
	fmt.Fprintf(out, "\n%d histories, %d failed; %d client processes; %d acquisitions, %d extensions, %d writes, %d refused; porcupine ordered %d operations\n",
		len(s.outcomes), failed, sums.Clients, sums.Acquired, sums.Extended, sums.Writes, sums.Refused, sums.Operations)
	covered := len(s.pairs()) - len(s.uncovered())
	fmt.Fprintf(out, "%d of %d pairs of faults overlapped\n", covered, len(s.pairs()))
	for _, what := range sortedKeys(excused) {
		fmt.Fprintf(out, "excused: %d of %s\n", excused[what], what)
	}
	for _, o := range s.outcomes {
		if o.failed() {
			fmt.Fprintf(out, "failed: seed %d; again: %s\n", o.seed, o.command)
		}
	}
}

// verdict returns what fails the campaign.
func (s summary) verdict() error {
	failed := 0
	for _, o := range s.outcomes {
		if o.failed() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d histories failed", failed, len(s.outcomes))
	}
	if idle := s.idle(); len(idle) > 0 {
		return fmt.Errorf("never struck while a lock was held, although tried: %s", strings.Join(idle, ", "))
	}
	if missing := s.uncovered(); s.enough() && len(missing) > 0 {
		return fmt.Errorf("%d pairs of faults never overlapped: %s", len(missing), strings.Join(missing, ", "))
	}
	return nil
}

// sortedKinds returns the kinds in their own order, then what else was noted.
func sortedKinds(struck map[string]history.Strikes) []string {
	all := names(kinds)
	all = slices.DeleteFunc(all, func(name string) bool { return struck[name].All == 0 })
	for _, name := range sortedKeys(struck) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
