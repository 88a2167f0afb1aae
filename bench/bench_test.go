package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The test binary can be the child of the figure held, as bench can.
func TestMain(m *testing.M) {
	if is, err := isHeldChild(os.Stdout); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// bounded returns a context that a hung test runs into, and no other.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Every figure, on real servers and with the real contenders, as small as can be.
// Whether they are good is nothing that a test can tell.
func TestFigures(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	// Valkeylock does hang now and then: that must not take long.
	b := tiny(4 * time.Second)
	who := patient
	b.kind = testserver.Kinds(t)[0]
	b.size.gap = 5 * time.Millisecond // nothing depends on the order here
	if err := start(ctx, t, b); err != nil {
		t.Fatal(err)
	}

	t.Run("measuring", func(t *testing.T) {
		before := snapshot(b.servers)
		b.servers[0].Do("PING")
		if after := snapshot(b.servers); after[0]["ping"] != before[0]["ping"]+1 {
			t.Errorf("%d PINGs, then %d, after one was sent", before[0]["ping"], after[0]["ping"])
		}
	})
	t.Run("cycle", func(t *testing.T) {
		entrants := b.present(entrants) // etcd has a test of its own
		r, _ := measure(ctx, t, b, runCycle, entrants, len(entrants))
		for _, c := range entrants {
			s := r.samples[c.name]
			if !r.gaveUp[c.name] && (len(s) != b.size.rounds || slices.Min(s) <= 0) {
				t.Errorf("%s: %v, want %d positive times", c.name, s, b.size.rounds)
			}
		}
	})
	t.Run("handover", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runHandover, who, len(who))
		for _, c := range who {
			for _, s := range [][]time.Duration{r.samples[c.name], r.busy[c.name]} {
				if !r.gaveUp[c.name] && (len(s) != b.size.rounds || slices.Min(s) <= 0) {
					t.Errorf("%s: %v, want %d positive times", c.name, s, b.size.rounds)
				}
			}
		}
	})
	t.Run("line", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runLine, who, len(who))
		for _, c := range who {
			for _, run := range r.runs[c.name] {
				if run.stuck {
					continue
				}
				everyone := slices.Sorted(slices.Values(run.order))
				if !slices.Equal(everyone, []int{0, 1, 2, 3, 4}) {
					t.Errorf("%s: the lock went to %v, want each of the five once", c.name, run.order)
				}
				if run.total < 5*lineHold {
					t.Errorf("%s: five waiters held it for %v each, all of them for %v", c.name, lineHold, run.total)
				}
			}
		}
	})
	t.Run("loop", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runLoop, patient, len(patient))
		for _, c := range patient {
			run := r.runs[c.name]
			if run.total() > 0 && run.changes >= run.total() || run.failures > 0 && c.name == "fenlock" {
				t.Errorf("%s: %d changes of holder in %d acquisitions, %d failures", c.name, run.changes, run.total(), run.failures)
			}
		}
		if ours := r.runs["fenlock"]; ours.total() == 0 {
			t.Errorf("nobody acquired in %v", ours.length)
		}
	})
	t.Run("idle", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runIdle, ourselves, 1)
		if r.lockers != 3 || r.waiters != 6 || r.length < b.size.idle || r.cpu < 0 || r.early > r.waiters {
			t.Errorf("%+v", r)
		}
	})
}

// measure takes a figure, and checks that its table has as many rows.
func measure[R result](ctx context.Context, t *testing.T, b *bench, run measuring[R], who []contender,
	rows int) (R, *table) {
	t.Helper()
	r, err := run(ctx, b, who)
	if err != nil {
		t.Fatal(err)
	}
	table := r.report(b)
	checkTable(t, table, rows)
	return r, table
}

func checkTable(t *testing.T, table *table, rows int) {
	t.Helper()
	var text strings.Builder
	table.print(&text)
	if len(table.rows) != rows {
		t.Errorf("%d rows, want %d:\n%s", len(table.rows), rows, &text)
	}
	for _, row := range table.rows {
		if len(row) != len(table.header) {
			t.Errorf("the row %q has not the columns %q", row, table.header)
		}
	}
	if strings.Contains(text.String(), "%!") || strings.Contains(text.String(), "NaN") {
		t.Errorf("badly formatted:\n%s", &text)
	}
}

// The ratios of two builds are taken pair by pair.
func TestAgainst(t *testing.T) {
	t.Parallel()
	// Both get slower from run to run, so that only pairs have a constant ratio. The
	// first pair does not count: runs 2 to 6 do.
	const count = `n=$(cat "$0.n" 2>/dev/null || echo 0); n=$((n + 1)); echo $n >"$0.n"; echo `
	older, newer := program(t, count+`$((n * 1000)) 20`), program(t, count+`$((n * 500)) 50.0`)
	var out strings.Builder
	if err := run(bounded(t), []string{"-old", older, "-new", newer, "-rounds", "5"}, &out); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 0 && (f[0] == "ns" || f[0] == "allocations") {
			rows = append(rows, strings.Join(f, " "))
		}
	}
	want := []string{"ns 4000.0 2000.0 0.500 0.500 0.500", "allocations 20.0 50.0 2.500 2.500 2.500"}
	if !slices.Equal(rows, want) {
		t.Errorf("%q, want %q, in:\n%s", rows, want, out.String())
	}
	if err := run(bounded(t), []string{"-old", older, "-new", program(t, "exit 0")}, &out); err == nil {
		t.Error("no error for a build that printed nothing")
	}
}

// The program that is compiled into other revisions prints what -old and -new
// expect of it.
func TestCycleProgram(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	program := filepath.Join(t.TempDir(), "cycle")
	if output, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cycle").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	s := testserver.Start(t, testserver.Kinds(t)[0])
	output, err := exec.CommandContext(ctx, program, s.URL(), "old:").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ns, allocs float64
	if _, err := fmt.Sscan(string(output), &ns, &allocs); err != nil || ns <= 0 || allocs <= 0 {
		t.Errorf("it printed %q: %v", output, err)
	}
	if s.Do("EXISTS", "fenlock-registers:old:") != "1" {
		t.Error("it did not use the prefix that it was given")
	}
}

// program is a script that can be started.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-figures", "cycle,nosuch"}, {"-figures", "cycle", "-plot", "x.svg"}, {"-with", "fenlock,nosuch"}, {"cycle"},
		{"-old", "x"},
	} {
		if err := run(bounded(t), args, &strings.Builder{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
