// Bench measures fenlock beside other lock libraries, and beside the least that its own scripts can
// cost. It does so on servers that it starts on this machine, one figure after the other. Within a
// figure the contenders take turns where they can, so that a drift of the machine hits all alike.
// "make bench" runs it.
//
// With -old and -new it compares two builds of bench/cycle instead:
// scripts/bench-against.sh.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// measurement is one figure.
type measurement struct {
	name string
	who  []contender
	run  measuring[*table]
}

// figures are what can be measured, in the order in which it is.
var figures = []measurement{
	{"cycle", entrants, figure(runCycle)},
	{"handover", patient, figure(runHandover)},
	{"line", patient, figure(runLine)},
	{"loop", patient, figure(runLoop)},
	{"idle", ourselves, figure(runIdle)},
	{"load", rivals, figure(runLoad)},
	{"single", []contender{fenlocks, redislocks, valkeylockOne, floors}, figure(runSingle)},
	{"nodes", []contender{fenlocks, redsyncs, floors}, figure(runNodes)},
	{"capacity", ourselves, figure(runCapacity)},
	{"groups", ourselves, figure(runGroups)},
	{"roundtrips", ourselves, figure(runRoundtrips)},
	{"held", ourselves, figure(runHeld)},
	{"memory", ourselves, figure(runMemory)},
	{"slow", []contender{fenlocks, redsyncs, floors}, figure(runSlow)},
	{"network", []contender{fenlocks, redsyncs, redsyncs2, floors}, figure(runNetwork)},
	{"command", ourselves, figure(runCommand)},
	{"herd", ourselves, figure(runHerd)},
	{"killed", ourselves, figure(runKilled)},
	{"listeners", listeners, figure(runListeners)},
	{"kinds", kindsOfLocks, figure(runKinds)},
	{"readers", ourselves, figure(runReaders)},
	{"leader", leaderWho, figure(runLeader)},
}

var (
	// allEntrants also has the contenders that are compared with fenlock only.
	allEntrants = slices.Concat(entrants, listeners[1:], kindsOfLocks[1:])
	ourselves   = []contender{fenlocks}
	// rivals have a majority of nodes, as fenlock has.
	rivals = []contender{fenlocks, redsyncs, redsyncs2, etcds, floors, floorsOfAll}
)

// result is what came of a figure.
type result interface{ report(b *bench) *table }

// measuring measures some contenders.
type measuring[R any] func(ctx context.Context, b *bench, who []contender) (R, error)

// figure makes the functions of a figure one.
func figure[R result](run measuring[R]) measuring[*table] {
	return func(ctx context.Context, b *bench, who []contender) (*table, error) {
		r, err := run(ctx, b, who)
		if err != nil {
			return nil, err
		}
		return r.report(b), nil
	}
}

func main() {
	if is, err := isHeldChild(os.Stdout); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a person that cannot wait for the end sends a second one
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var known, contenders []string
	for _, f := range figures {
		known = append(known, f.name)
	}
	for _, c := range allEntrants {
		contenders = append(contenders, c.name)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	which := flags.String("figures", strings.Join(known, ","), "what to measure")
	with := flags.String("with", strings.Join(contenders, ","), "whom to measure")
	rounds := flags.Int("rounds", 0, "rounds of cycle, handover, load, single, nodes, groups, slow, command, killed, listeners, kinds and leader, or of -old and -new (default: by the size)")
	quick := flags.Bool("quick", false, "measure less of everything: to see whether it works, not for figures")
	withEtcd := flags.Bool("etcd", false,
		"measure etcd too, which is built for that: its members cost the others a tenth of a core")
	plot := flags.String("plot", "", "write what load and nodes measured to this SVG `file`")
	older := flags.String("old", "", "compare this build of bench/cycle ...")
	newer := flags.String("new", "", "... with this one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q? bench has flags only", flags.Arg(0))
	}
	chosen, err := choose(*which, known)
	if err != nil {
		return err
	}
	whom, err := choose(*with, contenders)
	if err != nil {
		return err
	}

	if *plot != "" && !slices.Contains(chosen, "load") && !slices.Contains(chosen, "nodes") {
		return errors.New("-plot draws load and nodes, and neither is among the figures")
	}

	t := &testserver.Outside{}
	defer t.Close()
	return testserver.Try(func() error {
		b := &bench{kind: testserver.Kinds(t)[0], ttl: 10 * time.Second, giveUp: 20 * time.Second, size: fullSize}
		if *quick {
			b.size = quickSize
		}
		if *rounds > 0 {
			b.size.rounds, b.size.loads, b.size.slows, b.size.starts, b.size.changes = *rounds, *rounds, *rounds, *rounds,
				*rounds
		}
		if *older != "" || *newer != "" {
			return against(ctx, t, b, *older, *newer, *rounds, out)
		}
		if *withEtcd {
			b.etcd = &etcd{t: t, clusters: map[int]*testserver.Etcd{}}
		}
		var measured []measurement
		for _, f := range figures {
			if slices.Contains(chosen, f.name) {
				others := func(c contender) bool { return !slices.Contains(whom, c.name) }
				f.who = slices.DeleteFunc(slices.Clone(f.who), others)
				measured = append(measured, f)
			}
		}
		if err := start(ctx, t, b); err != nil {
			return err
		}
		about := machine(b)
		fmt.Fprintln(out, about)
		for _, c := range b.present(allEntrants) {
			if slices.Contains(whom, c.name) {
				fmt.Fprintf(out, "  %-18s %s\n", c.name, c.what)
			}
		}
		begun := time.Now()
		var failed error
		var panels []*panel
		for _, f := range measured {
			who := b.present(f.who)
			if len(who) == 0 {
				continue
			}
			table, err := f.run(ctx, b, who)
			b.etcd.stop() // an idle cluster takes a tenth of a core
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil { // the other figures stand by themselves
				fmt.Fprintf(out, "\n%s: failed: %v\n", f.name, err)
				failed = errors.New("not all figures could be measured")
				continue
			}
			table.print(out)
			if table.panel != nil {
				panels = append(panels, table.panel)
			}
		}
		if *plot != "" {
			if err := os.WriteFile(*plot, []byte(drawPlot(panels, about)), 0o644); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "\nmeasured in %v\n", time.Since(begun).Round(time.Second))
		return failed
	})
}

// choose reads a list with commas, of words that it knows.
func choose(list string, known []string) ([]string, error) {
	words := strings.Split(list, ",")
	for _, word := range words {
		if !slices.Contains(known, word) {
			return nil, fmt.Errorf("what is %q? There are %s", word, strings.Join(known, ", "))
		}
	}
	return words, nil
}

// machine says what the figures were measured on.
func machine(b *bench) string {
	version := b.servers[0].Info("server", string(b.kind)+"_version")
	load := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return fmt.Sprintf("%d servers (%s %s) and the clients share %d cores of this machine, loopback, no persistence; %s %s/%s; load before: %s",
		len(b.servers), b.kind, version, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, load)
}

// against runs two builds of bench/cycle alternately, and prints the ratios of
// each pair of runs.
func against(ctx context.Context, t *testserver.Outside, b *bench, older, newer string, rounds int,
	out io.Writer) error {
	if older == "" || newer == "" {
		return errors.New("-old and -new go together")
	}
	if rounds == 0 {
		rounds = 20
	}
	b.servers = testserver.Group(t, b.kind, 5)
	fmt.Fprintln(out, machine(b))
	builds := [2]string{older, newer}
	measure := func(which int) (ns, allocs float64, err error) {
		// Each build has a prefix of its own, so that neither meets what the other has written.
		cmd := exec.CommandContext(ctx, builds[which], strings.Join(b.urls(), ","), [2]string{"old:", "new:"}[which])
		var text bytes.Buffer
		cmd.Stdout, cmd.Stderr = &text, os.Stderr
		if err := cmd.Run(); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", builds[which], err)
		}
		if _, err := fmt.Fscan(&text, &ns, &allocs); err != nil {
			return 0, 0, fmt.Errorf("%s printed no two numbers: %w", builds[which], err)
		}
		return ns, allocs, nil
	}
	var ns, allocs [2][]float64
	for round := range rounds + 1 {
		for k := range builds {
			which := (round + k) % 2
			n, a, err := measure(which)
			if err != nil {
				return err
			}
			if round > 0 { // the first one waits until the servers vote
				ns[which], allocs[which] = append(ns[which], n), append(allocs[which], a)
			}
		}
	}
	table := &table{
		title:  "cycle: acquire and release, uncontended, this tree against another revision",
		method: fmt.Sprintf("%d pairs of runs, alternately, on the same servers; the ratio is new ÷ old of a pair", rounds),
		header: []string{"", "old, median", "new, median", "ratio, median", "p10", "p90"},
	}
	for _, m := range []struct {
		what   string
		values [2][]float64
	}{{"ns", ns}, {"allocations", allocs}} {
		ratios := make([]float64, rounds)
		for i := range ratios {
			ratios[i] = m.values[1][i] / m.values[0][i]
		}
		cells := []string{m.what}
		for _, v := range m.values {
			cells = append(cells, fmt.Sprintf("%.1f", median(v)))
		}
		for _, p := range []float64{0.5, 0.1, 0.9} {
			cells = append(cells, fmt.Sprintf("%.3f", percentile(ratios, p)))
		}
		table.row(cells...)
	}
	table.print(out)
	return nil
}
