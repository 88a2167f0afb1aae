//go:build linux

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
	"syscall"

	"github.com/fenlock/fenlock/tests/faults/cluster"
	"github.com/fenlock/fenlock/tests/faults/kinds"
	"github.com/fenlock/fenlock/tests/faults/library"
	"github.com/fenlock/fenlock/tests/faults/plan"
	"github.com/fenlock/fenlock/tests/faults/runner"
	"github.com/fenlock/fenlock/tests/faults/worker"
)

func main() {
	worker.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a person that cannot wait for the end sends a second one
	switch err := run(ctx, os.Args[1:], os.Stdout); {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
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
	c := campaign{Job: runner.Job{Setup: plan.Full(30)}}
	flags.IntVar(&c.histories, "histories", 100, "how many")
	flags.IntVar(&c.Seconds, "seconds", c.Seconds, "how long the faults of a history go on")
	flags.Uint64Var(&c.Seed, "seed", 1, "of the first history")
	flags.StringVar(&c.Out, "out", filepath.Join(os.TempDir(), "fenlock-faults"),
		"folder for histories; those that fail are always kept")
	flags.BoolVar(&c.Keep, "keep", false, "keep all histories")
	flags.IntVar(&c.parallel, "parallel", 1, "histories at a time")
	clients := flags.Int("clients", 0, "client processes (default: 6, of -locks other than exclusive 8)")
	flags.StringVar(&c.Locks, "locks", library.Exclusive, "what they use locks for: "+strings.Join(library.Locks, ", "))
	flags.StringVar(&c.Library, "library", library.Fenlock, "fenlock, redsync or redislock")
	engine := flags.String("engine", cluster.Groups[0].Name,
		"what the servers are: "+strings.Join(engines(), ", ")+
			" (mixed: Valkey and PostgreSQL in turn; stores: the other five)")
	nodes := flags.Int("nodes", c.Nodes, "servers; of -engine file 1 if nothing is said")
	some := flags.String("kinds", "", "faults to choose from, with commas (default: all)")
	only := flags.String("only", "", "this kind of fault, or these two with a comma, or none, in all slots")
	rolling := flags.Bool("rolling", false, "servers go and come back one after the other, or two of five at a time, while locks are held for long and other names move the registers")
	flags.BoolVar(&c.Steps, "steps", false,
		"have each step of Valkey's servers be one of the model that is proved; nothing is evicted then")
	flags.BoolVar(&c.compares, "compare", false, "all libraries under one kind of fault at a time: a table in Markdown")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.Clients = *clients; c.Clients == 0 {
		c.Clients = usualClients(c.Locks)
	}
	group, known := cluster.On(*engine)
	given := false
	if flags.Visit(func(f *flag.Flag) { given = given || f.Name == "nodes" }); known && !given {
		*nodes = group.Usual()
	}
	switch {
	case !known:
		return c, fmt.Errorf("what is -engine %q? There are %s", *engine, strings.Join(engines(), ", "))
	case group.Name != cluster.Groups[0].Name && (c.Library != library.Fenlock || c.compares):
		return c, errors.New("the other libraries, and -compare, are for Valkey")
	case !slices.Contains(library.Locks, c.Locks):
		return c, fmt.Errorf("what is -locks %q? There are %s", c.Locks, strings.Join(library.Locks, ", "))
	case c.Locks != library.Exclusive && (c.Library != library.Fenlock || c.compares):
		return c, errors.New("-locks is for fenlock: the other libraries, and -compare, have exclusive ones")
	case c.Steps && (group.Name != cluster.Groups[0].Name || c.Library != library.Fenlock || c.compares):
		return c, errors.New("-steps is for fenlock on Valkey")
	case flags.NArg() > 0:
		return c, fmt.Errorf("what is %q? There are flags only", flags.Arg(0))
	case c.histories < 1 || c.Seconds < 1 || c.parallel < 1 || c.Clients < 1 || *nodes < 1:
		return c, errors.New("-histories, -seconds, -parallel, -clients and -nodes are at least 1")
	case !slices.Contains(library.All, c.Library):
		return c, fmt.Errorf("what is -library %q? There are %s", c.Library, strings.Join(library.All, ", "))
	}
	c.Setup = plan.FullOn(group, c.Seconds)
	c.Nodes = *nodes
	// Only the guard makes it safe to write on when the lock has ended.
	c.Reckless = c.Library == library.Fenlock
	switch *only {
	case "":
	case noFault:
		c.Only = []string{}
	default:
		c.Only = strings.Split(*only, ",")
		*some = *only
	}
	if *rolling {
		c.Setup = plan.Rolling(c.Setup)
	}
	if c.Steps {
		c.Kinds = unseen(c.Kinds)
	}
	if len(c.Only) > 2 {
		return c, errors.New("-only takes one kind of fault or two")
	}
	if len(c.Kinds) == 0 {
		return c, fmt.Errorf("no server of -engine %s goes and comes back", group.Name)
	}
	if err := c.choose(*some); err != nil || !c.Steps || len(unseen(c.Kinds)) == len(c.Kinds) {
		return c, err
	}
	return c, errors.New("what is evicted is not seen by -steps")
}

func engines() (names []string) {
	for _, g := range cluster.Groups {
		names = append(names, g.Name)
	}
	return names
}

// choose takes kinds of fault by their names.
func (c *campaign) choose(list string) error {
	if list == "" {
		return nil
	}
	c.Kinds = nil
	for _, name := range strings.Split(list, ",") {
		every := append(kinds.On(c.Group), kinds.RollingRestart)
		i := kinds.Index(every, name)
		if i < 0 {
			return fmt.Errorf("there is no kind of fault %q; there are: %s", name, strings.Join(kinds.Names(every), ", "))
		}
		if kinds.Index(c.Kinds, name) < 0 {
			c.Kinds = append(c.Kinds, every[i])
		}
	}
	return nil
}

// missingTools says what cannot be run on this machine. That is an error in
// continuous integration, and elsewhere a line of the report.
func missingTools() error {
	if _, err := exec.LookPath("cc"); err != nil {
		return fmt.Errorf(
			"the servers' clocks are moved by a library that takes a C compiler (Debian: apt-get install gcc libc6-dev): %w",
			err)
	}
	return nil
}
