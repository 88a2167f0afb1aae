//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fenlock/fenlock/tests/history"
)

// compared are the libraries of the head to head.
var compared = []string{libraryFenlock, libraryRedsync, libraryRedislock}

// rollingRestart is how many operators update servers. No campaign has it of
// itself, because it leaves no majority that remembers its registers. fenlock's
// servers then vote for nothing until all leases have ended; nobody else's do.
var rollingRestart = kind{
	name: "rolling restart", breaks: history.RegistersSurvive, forgets: true, nodeless: true, within: nobody,
	inject: func(s *scene) (func() error, error) {
		for i := range s.cluster.members {
			m := s.cluster.members[(s.node+i)%len(s.cluster.members)]
			if err := m.kill(false); err != nil {
				return nil, err
			}
			time.Sleep(s.ttl / 20)
			if err := m.restart(); err != nil {
				return nil, err
			}
		}
		return func() error { return nil }, nil
	},
}

var everyKind = append(slices.Clip(kinds), rollingRestart)

// row is one kind of fault.
type row struct {
	name   string
	kinds  []string // in a slot; at the same time, on two servers
	within func(library string, p persistence) string
}

// compare runs the same schedules with each library, under one kind of fault at a
// time, and prints a table. The clients of all check the validity before each
// write, and the resource of all but fenlock has no token to check.
func compare(ctx context.Context, c campaign, out io.Writer) error {
	c.reckless, c.rests = false, true
	fmt.Fprintf(out, "%d servers, %d client processes, %d names, TTL %v; for each row %d x %d s with the same seeds, from %d on.\n"+
		"Servers are of all persistences. A fault strikes two servers, or two clients, at a time; a rolling restart all servers,\n"+
		"one after the other. redislock knows one server only, the first.\n\n",
		c.nodes, c.clients, len(lockNames), c.ttl, c.histories, c.seconds, c.seed)
	fmt.Fprintln(out, "| fault | library | within what it assumes | acquisitions | overlapping tenures | lost updates | leases left over |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	if len(c.kinds) == len(kinds) {
		c.kinds = everyKind
	}
	for _, row := range rows(c.kinds) {
		for _, library := range compared {
			one := c
			one.library, one.only = library, row.kinds
			outcomes, err := one.run(ctx, func(outcome) {})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", row.name, library, err)
			}
			fmt.Fprintln(out, line(row, library, one.persistences(), outcomes))
		}
	}
	fmt.Fprintln(out, `
Acquisitions: how often a lock was acquired; more is not better, clients hold it as long as they like. Overlapping
tenures: a client acquired a lock while another one was within its validity. Lost updates: a write to the resource on
top of a value that was not the newest. Leases left over: on a server although nobody held a lock, half a second after
all clients had let go of what they held or waited for, which they do once after each fault.`)
	return nil
}

// rows are no fault, and each kind by itself.
func rows(kinds []kind) []row {
	all := []row{{name: noFault, kinds: []string{}, within: func(string, persistence) string { return "yes" }}}
	for _, k := range kinds {
		r := row{name: k.name, kinds: []string{k.name, k.name}}
		if k.name == rollingRestart.name {
			r.kinds = r.kinds[:1]
		}
		r.within = func(library string, p persistence) string {
			fits := k.allows(library, p)
			switch {
			case k.name == rollingRestart.name && p == always:
				fits = true
			case k.name == rollingRestart.name && library == libraryFenlock:
				return "but for the order of tokens"
			case library == libraryFenlock:
				fits = k.breaks == "" && k.name != "clock back" // its heal is a step forward
			}
			return map[bool]string{true: "yes", false: "no"}[fits]
		}
		all = append(all, r)
	}
	return all
}

// persistences are those of the servers of a campaign.
func (c campaign) persistences() (all []persistence) {
	for i := range c.histories {
		all = append(all, newPlan(c.seed+uint64(i), c.setup).persistence)
	}
	return all
}

func line(r row, library string, on []persistence, outcomes []outcome) string {
	acquired, overlaps, lost, stranded, broken := 0, 0, 0, 0, 0
	for _, o := range outcomes {
		acquired += o.report.Acquired
		overlaps += len(o.report.Overlaps)
		lost += len(o.report.Lost)
		stranded += o.stranded
		broken += len(o.problems)
	}
	var answers []string
	for _, p := range on {
		if answer := r.within(library, p); !slices.Contains(answers, answer) {
			answers = append(answers, answer)
		}
	}
	within := answers[0]
	if len(answers) > 1 { // which is so for faults that cost what is not on disk
		within = "with fsync always"
	}
	text := fmt.Sprintf("| %s | %s | %s | %d | %d | %d | %d |", r.name, library, within, acquired, overlaps, lost, stranded)
	if broken > 0 {
		text += fmt.Sprintf(" %d problems, see -library %s", broken, library)
	}
	return text
}
