//go:build linux

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/runner"
	"github.com/fenlock/fenlock/tests/history"
)

// row is one kind of fault.
type row struct {
	kinds.Kind
	slot []string // kinds, at the same time, on two servers
}

// compare runs the same schedules with each library, under one kind of fault at a
// time, and prints a table. The clients of all check the validity before each
// write, and the resource of all but fenlock has no token to check.
func compare(ctx context.Context, c campaign, out io.Writer) error {
	c.Reckless, c.Rests = false, true
	fmt.Fprintf(out, "%d servers, %d client processes, %d names, TTL %v; for each row %d x %d s with the same seeds, from %d on.\n"+
		"Servers are of all persistences. A fault strikes two servers, or two clients, at a time; a rolling restart all servers,\n"+
		"one after the other. redislock knows one server only, the first.\n\n",
		c.Nodes, c.Clients, len(runner.Names), c.TTL, c.histories, c.Seconds, c.Seed)
	fmt.Fprintln(out, "| fault | library | within what it assumes | acquisitions | overlapping tenures | lost updates | leases left over |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	if len(c.Kinds) == len(kinds.All) {
		c.Kinds = kinds.Every
	}
	for _, row := range rows(c.Kinds) {
		for _, name := range library.All {
			one := c
			one.Library, one.Only = name, row.slot
			outcomes, err := one.run(ctx, func(runner.Outcome) {})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", row.Name, name, err)
			}
			fmt.Fprintln(out, line(row, name, one.persistences(), outcomes))
		}
	}
	fmt.Fprintln(out, `
Acquisitions: how often a lock was acquired; more is not better, clients hold it as long as they like. Overlapping
tenures: a client acquired a lock while another one was within its validity. Lost updates: a write to the resource on
top of a value that was not the newest. Leases left over: on a server although no lock was held, half a second after
all clients had let go of what they held or waited for, which they do once after each fault.`)
	return nil
}

// rows are no fault, and each kind by itself.
func rows(list []kinds.Kind) []row {
	all := []row{{kinds.Kind{Name: noFault, Within: library.All}, []string{}}}
	for _, k := range list {
		r := row{k, []string{k.Name, k.Name}}
		if k.Name == kinds.RollingRestart.Name {
			r.slot = r.slot[:1]
		}
		all = append(all, r)
	}
	return all
}

// within says whether the fault is within what a library states, on servers with
// these persistences.
func (r row) within(name string, on []cluster.Persistence) string {
	allowed := make(map[bool]bool)
	for _, p := range on {
		allowed[r.Allows(name, p)] = true
	}
	switch {
	case len(allowed) > 1: // which is so for faults that cost what is not on disk
		return "with fsync always"
	case allowed[true]:
		return "yes"
	case name == library.Fenlock && r.Breaks == history.RegistersSurvive:
		return "but for the order of tokens"
	}
	return "no"
}

// persistences are those of the servers of a campaign.
func (c campaign) persistences() (all []cluster.Persistence) {
	for i := range c.histories {
		all = append(all, plan.New(c.Seed+uint64(i), c.Setup).Persistence)
	}
	return all
}

func line(r row, library string, on []cluster.Persistence, outcomes []runner.Outcome) string {
	acquired, overlaps, lost, leftover, broken := 0, 0, 0, 0, 0
	for _, o := range outcomes {
		acquired += o.Report.Acquired
		overlaps += len(o.Report.Overlaps)
		lost += len(o.Report.Lost)
		leftover += o.Leftover
		broken += len(o.Problems)
	}
	text := fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %d |", r.Name, library, r.within(library, on), acquired, overlaps,
		lost, leftover)
	if broken > 0 {
		text += fmt.Sprintf(" %d problems, see -library %s", broken, library)
	}
	return text
}
