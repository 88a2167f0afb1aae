//go:build linux

// Faults lets client processes use locks on five real servers while faults strike
// them, two kinds at a time, by a schedule that a seed decides. What happened is
// written down and checked (package history). "make faults" runs a campaign.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fenlock/fenlock/internal/testserver"
)

func main() {
	if os.Getenv(workerVariable) != "" {
		os.Exit(workerMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // whoever cannot wait for the end sends a second one
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// campaign is many histories of one setup, with consecutive seeds.
type campaign struct {
	job       // the seed is the first one's
	histories int
	parallel  int
	compares  bool
}

func run(ctx context.Context, args []string, out io.Writer) error {
	c, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	if err := missingTools(); err != nil {
		if os.Getenv("CI") != "" {
			return err
		}
		fmt.Fprintln(out, "left out, all of it:", err)
		return nil
	}
	if c.compares {
		return compare(ctx, c, out)
	}
	return c.print(ctx, out)
}

// parse reads the command line.
func parse(args []string, usage io.Writer) (campaign, error) {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(usage)
	c := campaign{job: job{setup: setup{kinds: kinds, nodes: 5, ttl: groupTTL}}}
	flags.IntVar(&c.histories, "histories", 100, "how many")
	flags.IntVar(&c.seconds, "seconds", 30, "how long the faults of a history go on")
	flags.Uint64Var(&c.seed, "seed", 1, "of the first history")
	flags.StringVar(&c.out, "out", filepath.Join(os.TempDir(), "fenlock-faults"), "folder for histories; those that fail are always kept")
	flags.BoolVar(&c.keep, "keep", false, "keep all histories")
	flags.IntVar(&c.parallel, "parallel", 1, "histories at a time")
	flags.IntVar(&c.clients, "clients", 6, "client processes")
	flags.StringVar(&c.library, "library", libraryFenlock, "fenlock, redsync or redislock")
	some := flags.String("kinds", "", "faults to choose from, with commas (default: all)")
	only := flags.String("only", "", "this kind of fault, or these two with a comma, or none, in all slots")
	flags.BoolVar(&c.compares, "compare", false, "all libraries under one kind of fault at a time: a table in Markdown")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	switch {
	case flags.NArg() > 0:
		return c, fmt.Errorf("what is %q? There are flags only", flags.Arg(0))
	case c.histories < 1 || c.seconds < 1 || c.parallel < 1 || c.clients < 1:
		return c, errors.New("-histories, -seconds, -parallel and -clients are at least 1")
	case !slices.Contains(compared, c.library):
		return c, fmt.Errorf("what is -library %q? There are %s", c.library, strings.Join(compared, ", "))
	}
	// Only the guard makes it safe to write on when the lock has ended.
	c.reckless = c.library == libraryFenlock
	switch *only {
	case "":
	case noFault:
		c.only = []string{}
	default:
		c.only = strings.Split(*only, ",")
		*some = *only
	}
	if len(c.only) > 2 {
		return c, errors.New("-only takes one kind of fault or two")
	}
	return c, c.choose(*some)
}

// choose takes kinds of fault by their names.
func (c *campaign) choose(list string) error {
	if list == "" {
		return nil
	}
	var chosen []kind
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(everyKind, func(k kind) bool { return k.name == name })
		if i < 0 {
			return fmt.Errorf("there is no kind of fault %q; there are: %s", name, strings.Join(names(everyKind), ", "))
		}
		if !slices.ContainsFunc(chosen, func(k kind) bool { return k.name == name }) {
			chosen = append(chosen, everyKind[i])
		}
	}
	c.kinds = chosen
	return nil
}

// missingTools says what cannot be run on this machine. That is an error in
// continuous integration, and elsewhere a line of the report.
func missingTools() error {
	if _, err := exec.LookPath("cc"); err != nil {
		return fmt.Errorf("the servers' clocks are moved by a library that takes a C compiler (Debian: apt-get install gcc libc6-dev): %w", err)
	}
	return nil
}

// print runs the campaign and prints what came of it.
func (c campaign) print(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%d histories of %d s, %d at a time, seeds from %d: %s, %d servers, %d client processes, %d pairs of faults\n",
		c.histories, c.seconds, c.parallel, c.seed, c.library, c.nodes, c.clients, len(c.pairs()))
	outcomes, err := c.run(ctx, func(o outcome) { printOutcome(out, o) })
	if len(outcomes) > 0 {
		s := c.sum(outcomes)
		s.print(out)
		if err == nil {
			err = s.verdict()
		}
	}
	return err
}

// noFault stands for no kind of fault.
const noFault = "none"

// run makes the histories and tells of each when it is done. A history that
// cannot be made is one that failed; if none could be made yet, it is an error,
// because then the others cannot either.
func (c campaign) run(ctx context.Context, done func(outcome)) (outcomes []outcome, err error) {
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
				j := c.job
				j.seed += uint64(i)
				j.command = c.again(j.seed)
				o, err := makeHistory(ctx, j)
				mu.Lock()
				switch {
				case err == nil || ctx.Err() == nil && len(outcomes) > 0:
					if err != nil {
						o.problems = append(o.problems, fmt.Sprint("there is no history: ", err))
					}
					outcomes = append(outcomes, o)
					done(o)
				default:
					stop(fmt.Errorf("seed %d: %w; again: %s", j.seed, err, j.command))
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return outcomes, context.Cause(ctx)
}

// makeHistory makes one history outside a test.
func makeHistory(ctx context.Context, j job) (o outcome, err error) {
	outside := &testserver.Outside{}
	defer outside.Close()
	err = testserver.Try(func() error {
		o, err = runHistory(ctx, outside, j)
		return err
	})
	return o, err
}

// again is the line that makes one history again, from the folder tests.
func (c campaign) again(seed uint64) string {
	line := fmt.Sprintf("go run ./faults -keep -histories 1 -seed %d -seconds %d", seed, c.seconds)
	if c.clients != 6 {
		line += fmt.Sprint(" -clients ", c.clients)
	}
	if c.library != libraryFenlock {
		line += " -library " + c.library
	}
	switch {
	case c.only != nil && len(c.only) == 0:
		line += " -only " + noFault
	case len(c.only) > 0:
		line += fmt.Sprintf(" -only %q", strings.Join(c.only, ","))
	case len(c.kinds) != len(kinds):
		line += fmt.Sprintf(" -kinds %q", strings.Join(names(c.kinds), ","))
	}
	return line
}
