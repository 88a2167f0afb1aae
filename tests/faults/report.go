//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/runner"
	"github.com/fenlock/fenlock/tests/history"
)

// mostPrinted is how many violations of a history are printed; the check of its
// file prints all.
const mostPrinted = 10

// printOutcome prints the line of a history, and what is wrong with it.
func printOutcome(out io.Writer, o runner.Outcome) {
	r, struck, held := o.Report, 0, 0
	for _, s := range r.Faults {
		struck, held = struck+s.All, held+s.Held
	}
	fmt.Fprintf(out, "seed %d: %d acquisitions, %d extensions, %d writes, %d refused, %d strikes (%d while held), %d client processes, %v\n",
		o.Seed, r.Acquired, r.Extended, r.Writes, r.Refused, struck, held, r.Clients, o.Took.Round(100*time.Millisecond))
	if tied := o.Tied; tied.Steps > 0 {
		fmt.Fprintf(out, "  %d steps of the model%s\n", tied.Steps,
			map[bool]string{true: ", and no further: " + tied.Untied}[tied.Untied != ""])
	}
	if !o.Failed() {
		return
	}
	for i, v := range r.Violations {
		if i == mostPrinted {
			fmt.Fprintf(out, "  ... and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(out, "  VIOLATION of %s: %s\n", v.Promise, v.Text)
	}
	for _, p := range o.Problems {
		fmt.Fprintf(out, "  PROBLEM: %s\n", strings.ReplaceAll(p, "\n", "\n    "))
	}
	fmt.Fprintf(out, "  again: %s\n", o.Command)
	if o.Path != "" {
		fmt.Fprintf(out, "  check the file again: go run ./history/check %s\n", o.Path)
	}
}

// summary is what a campaign came to.
type summary struct {
	campaign
	outcomes []runner.Outcome
	failed   int
	faults   map[string]history.Count
	covered  map[string]int // pairs, by plan.Key
}

func (c campaign) sum(outcomes []runner.Outcome) summary {
	s := summary{campaign: c, outcomes: outcomes, faults: make(map[string]history.Count), covered: make(map[string]int)}
	for _, o := range outcomes {
		if o.Failed() {
			s.failed++
		}
		for name, n := range o.Report.Faults {
			s.faults[name] = history.Count{All: s.faults[name].All + n.All, Held: s.faults[name].Held + n.Held}
		}
		for _, pair := range o.Covered {
			s.covered[plan.Key(pair)]++
		}
	}
	return s
}

// uncovered returns the pairs that never overlapped.
func (s summary) uncovered() (all []string) {
	for _, pair := range s.Pairs() {
		if s.covered[plan.Key(pair)] == 0 {
			all = append(all, plan.Key(pair))
		}
	}
	return all
}

// enough reports whether each pair was dealt to some slot, and so whether what
// was not tried is a failure. On a single server one fault may be in the way of another.
func (s summary) enough() bool { return s.Nodes > 1 && s.histories*s.Slots() >= len(s.Pairs()) }

// tried is how often each kind was dealt to a slot: one that was tried so often
// should have struck while a lock was held.
func (s summary) tried() map[string]int {
	n := make(map[string]int)
	for i := range s.histories {
		for _, slot := range plan.New(s.Seed+uint64(i), s.Setup).Slots {
			for _, name := range slot.Pair() {
				n[name]++
			}
		}
	}
	return n
}

// idle are the kinds that struck no lock, although they were tried often enough.
func (s summary) idle() (all []string) {
	const often = 3
	tried := s.tried()
	for _, name := range kinds.Names(s.Kinds) {
		if tried[name] >= often && s.faults[name].Held == 0 {
			all = append(all, name)
		}
	}
	return all
}

func (s summary) print(out io.Writer) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "kind of fault\tstruck\twhile a lock was held")
	for _, name := range sortedKinds(kinds.On(s.Group), s.faults) {
		fmt.Fprintf(table, "%s\t%d\t%d\n", name, s.faults[name].All, s.faults[name].Held)
	}
	table.Flush()

	var sums history.Report
	excused := make(map[string]int)
	for _, o := range s.outcomes {
		r := o.Report
		sums.Acquired, sums.Extended, sums.Writes = sums.Acquired+r.Acquired, sums.Extended+r.Extended, sums.Writes+r.Writes
		sums.Stood, sums.Gone = sums.Stood+r.Stood, sums.Gone+r.Gone
		sums.Refused, sums.Clients, sums.Operations = sums.Refused+r.Refused, sums.Clients+r.Clients,
			sums.Operations+r.Operations
		for _, v := range r.Excused {
			excused[v.Promise+", while not: "+v.Assumption]++
		}
	}
	fmt.Fprintf(out, "\n%d histories, %d failed; %d client processes; %d acquisitions, %d extensions, %d writes, %d refused; porcupine ordered %d operations\n",
		len(s.outcomes), s.failed, sums.Clients, sums.Acquired, sums.Extended, sums.Writes, sums.Refused, sums.Operations)
	if s.Library == library.Fenlock {
		fmt.Fprintf(out, "%d locks were held on while a node failed their client, %d were lost\n", sums.Stood, sums.Gone)
	}
	if s.Steps {
		steps, whole, lost, admits := 0, 0, 0, 0
		for _, o := range s.outcomes {
			steps, lost, admits = steps+o.Tied.Steps, lost+o.Tied.Lost, admits+o.Tied.Admits
			if o.Tied.Untied == "" && o.Tied.Refused == nil {
				whole++
			}
		}
		fmt.Fprintf(out, "%d steps of the servers are steps of the model, with %d losses of memory and %d admissions after one; %d histories were looked at to their end\n", steps, lost, admits, whole)
	}
	covered := len(s.Pairs()) - len(s.uncovered())
	fmt.Fprintf(out, "%d of %d pairs of faults overlapped\n", covered, len(s.Pairs()))
	for _, what := range slices.Sorted(maps.Keys(excused)) {
		fmt.Fprintf(out, "excused: %d of %s\n", excused[what], what)
	}
	for _, o := range s.outcomes {
		if o.Failed() {
			fmt.Fprintf(out, "failed: seed %d; again: %s\n", o.Seed, o.Command)
		}
	}
}

// verdict returns what fails the campaign.
func (s summary) verdict() error {
	if s.failed > 0 {
		return fmt.Errorf("%d of %d histories failed", s.failed, len(s.outcomes))
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
func sortedKinds(list []kinds.Kind, noted map[string]history.Count) []string {
	all := slices.DeleteFunc(kinds.Names(list), func(name string) bool { return noted[name].All == 0 })
	return append(all, slices.DeleteFunc(slices.Sorted(maps.Keys(noted)),
		func(name string) bool { return slices.Contains(all, name) })...)
}
