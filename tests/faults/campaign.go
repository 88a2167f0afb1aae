//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/runner"
)

// campaign is many histories of one setup, with consecutive seeds.
type campaign struct {
	runner.Job // the seed is the first one's
	histories  int
	parallel   int
	compares   bool
}

// noFault stands for no kind of fault.
const noFault = "none"

// print runs the campaign and prints what came of it.
func (c campaign) print(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d histories of %d s, %d at a time, seeds from %d: %s locks of %s on %s, %d servers, %d client processes, %d pairs of faults\n",
		c.histories, c.Seconds, c.parallel, c.Seed, c.Locks, c.Library, c.Group.Name, c.Nodes, c.Clients, len(c.Pairs()))
	outcomes, err := c.run(ctx, func(o runner.Outcome) { printOutcome(out, o) })
	if len(outcomes) > 0 {
		s := c.sum(outcomes)
		s.print(out)
		if err == nil {
			err = s.verdict()
		}
	}
	return err
}

// run makes the histories and tells of each when it is done. A history that
// cannot be made is one that failed; if none could be made yet, it is an error,
// because then the others cannot either.
func (c campaign) run(ctx context.Context, done func(runner.Outcome)) (outcomes []runner.Outcome, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var working sync.WaitGroup
	next := 0
	for range min(c.parallel, c.histories) {
		working.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= c.histories || ctx.Err() != nil {
					return
				}
				j := c.Job
				j.Seed += uint64(i)
				j.Command = c.again(j.Seed)
				o, err := runner.Run(ctx, j)
				mu.Lock()
				switch {
				case err == nil || ctx.Err() == nil && len(outcomes) > 0:
					if err != nil {
						o.Problems = append(o.Problems, fmt.Sprint("there is no history: ", err))
					}
					outcomes = append(outcomes, o)
					done(o)
				default:
					stop(fmt.Errorf("seed %d: %w; again: %s", j.Seed, err, j.Command))
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return outcomes, context.Cause(ctx)
}

// again is the line that makes one history again, from the folder tests.
func (c campaign) again(seed uint64) string {
	line := fmt.Sprintf("go run ./faults -keep -histories 1 -seed %d -seconds %d", seed, c.Seconds)
	if c.Locks != library.Exclusive {
		line += " -locks " + c.Locks
	}
	if c.Clients != usualClients(c.Locks) {
		line += fmt.Sprint(" -clients ", c.Clients)
	}
	if c.Group.Name != cluster.Groups[0].Name {
		line += " -engine " + c.Group.Name
	}
	if c.Nodes != c.Group.Usual() {
		line += fmt.Sprint(" -nodes ", c.Nodes)
	}
	usual := kinds.On(c.Group)
	if c.Rolling {
		line += " -rolling"
		usual = plan.Rolling(c.Setup).Kinds
	}
	if c.Steps {
		line += " -steps"
		usual = unseen(usual)
	}
	if c.Library != library.Fenlock {
		line += " -library " + c.Library
	}
	switch {
	case c.Only != nil && len(c.Only) == 0:
		line += " -only " + noFault
	case len(c.Only) > 0:
		line += fmt.Sprintf(" -only %q", strings.Join(c.Only, ","))
	case len(c.Kinds) != len(usual):
		line += fmt.Sprintf(" -kinds %q", strings.Join(kinds.Names(c.Kinds), ","))
	}
	return line
}

// unseen takes out the kinds of faults by which a server forgets what the recorder of its steps
// does not see.
func unseen(all []kinds.Kind) []kinds.Kind {
	return slices.DeleteFunc(slices.Clone(all), func(k kinds.Kind) bool { return k.Name == "evict" })
}

// usualClients is how many there are: of those who share a name more, so that several are there
// at a time.
func usualClients(locks string) int {
	if locks == library.Exclusive {
		return 6
	}
	return 8
}
