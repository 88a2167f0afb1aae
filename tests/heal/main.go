//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

var errLost = errors.New("locks were lost")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // whoever cannot wait for the end sends a second one
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "heal:", err)
		os.Exit(1)
	}
}

// run is the whole program. It returns errLost if all went well but for the locks.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("heal", flag.ContinueOnError)
	some := flags.String("rows", "", "which, by their numbers with commas (default: all)")
	var s setting
	flags.IntVar(&s.locks, "locks", 40, "how many are held")
	flags.DurationVar(&s.ttl, "ttl", 5*time.Second, "TTL and MaxTTL")
	flags.DurationVar(&s.peace, "peace", 0, "for how long all servers vote before the next one goes (default: half a TTL, which is promised)")
	kind := flags.String("kind", "", "valkey or redis (default: the first that is installed)")
	quick := flags.Bool("quick", false, "4 locks, TTL 2s: to see whether it works, not for figures")
	times := flags.Int("times", 1, "how often each row is run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("what is %q? There are flags only", flags.Arg(0))
	case s.locks < 1 || *times < 1 || s.peace < 0:
		return errors.New("-locks and -times are at least 1, -peace is not negative")
	}
	if *quick {
		s.locks, s.ttl = 4, 2*time.Second
	}
	if s.peace == 0 {
		s.peace = s.ttl / 2
	}
	chosen, err := choose(*some)
	if err != nil {
		return err
	}
	return testserver.Try(func() error {
		s.kind = testserver.Kind(*kind)
		if *kind == "" {
			outside := &testserver.Outside{}
			defer outside.Close()
			s.kind = testserver.Kinds(outside)[0]
		}
		return table(ctx, s, chosen, *times, out)
	})
}

// choose reads a list of numbers of rows.
func choose(list string) ([]row, error) {
	if list == "" {
		return rows, nil
	}
	var chosen []row
	for _, word := range strings.Split(list, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return strconv.Itoa(r.number) == word })
		if i < 0 {
			return nil, fmt.Errorf("what is row %q? There are 1 to %d", word, len(rows))
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

// table runs the rows, and prints each when it is over.
func table(ctx context.Context, s setting, chosen []row, times int, out io.Writer) error {
	fmt.Fprintf(out, "%d locks are held, TTL and MaxTTL %v, on %s servers without persistence, on %d cores; load before: %s\n",
		s.locks, s.ttl, s.kind, runtime.NumCPU(), load())
	fmt.Fprintf(out, "The peace after each fault is %v, from when all servers vote again.\n\n", s.peace)
	const line = "%3v  %-88s %5v  %9v  %7v  %s\n"
	fmt.Fprintf(out, line, "row", "what happens", "nodes", "others/s", "lasted", "locks lost")
	lost := 0
	for _, r := range chosen {
		for range times {
			result, err := r.run(ctx, s)
			if err != nil {
				return fmt.Errorf("row %d: %w", r.number, err)
			}
			fmt.Fprintf(out, line, r.number, r.what, r.size(), result.rate(r), result.lasted.Round(time.Second),
				fmt.Sprintf("%d of %d", len(result.losses), s.locks))
			for _, text := range explain(result.losses) {
				fmt.Fprintln(out, "      ", text)
			}
			for _, p := range result.problems {
				fmt.Fprintln(out, "       PROBLEM:", p)
			}
			lost += len(result.losses) + len(result.problems)
		}
	}
	if lost > 0 {
		return errLost
	}
	return nil
}

// load says how busy the machine is, which matters for figures.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
