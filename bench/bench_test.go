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
	"github.com/fenlock/fenlock/node/valkeynode"
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

// rows are how many rows each figure's table has, with the sizes of tiny. Etcd has a test of its
// own.
var rows = map[string]int{
	"cycle": 8, "handover": 2, "line": 2, "loop": 2, "idle": 1, "load": 2 * 5, "single": 4, "nodes": 2 * 3, "capacity": 2,
	"groups": 2 * 3, "roundtrips": 5, "held": 1, "memory": 5, "slow": 3, "network": 4*7 - 1, "command": 4, "herd": 2,
	"killed": 2, "listeners": 2 * 3, "kinds": 2 * 4, "readers": 1, "leader": 1,
}

// onServers is tiny, with five servers that vote.
func onServers(ctx context.Context, t *testing.T) *bench {
	t.Helper()
	b := tiny(20 * time.Second)
	b.kind, b.ttl = testserver.Kinds(t)[0], 2*time.Second // nothing is to lose a lock because the machine is busy
	b.size.gap = 5 * time.Millisecond                     // nothing depends on the order here
	if err := start(ctx, t, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Every figure, on real servers and with the real contenders, as small as can be. Whether they are
// good is nothing that a test can tell.
func TestFigures(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	b := onServers(ctx, t)
	for _, f := range figures {
		t.Run(f.name, func(t *testing.T) {
			table, err := f.run(ctx, b, b.present(f.who))
			if err != nil {
				t.Fatal(err)
			}
			checkTable(t, table, rows[f.name])
			switch f.name {
			case "load":
				checkPanel(t, table.panel, 5, []float64{1, 64})
			case "nodes":
				checkPanel(t, table.panel, 3, []float64{1, 6})
				if len(b.servers) != 5 || len(b.started) != 6 {
					t.Errorf("the other figures have %d servers, want 5; there are %d, want 6", len(b.servers), len(b.started))
				}
			case "herd": // none has failed, and each has counted
				for _, row := range table.rows {
					if row[7] != "0" || row[8] != "0" {
						t.Errorf("%q", row)
					}
				}
			}
		})
	}
}

// What is far, late or slow in a figure is that for the contenders, and each of several names is
// leased.
func TestWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	b := onServers(ctx, t)
	before := snapshot(b.servers)
	b.servers[0].Do("PING")
	if after := snapshot(b.servers); after[0]["ping"] != before[0]["ping"]+1 {
		t.Errorf("%d PINGs, then %d, after one was sent", before[0]["ping"], after[0]["ping"])
	}
	// Redsync waits for all servers, so the slow one is in its way: if not, there is none.
	who := []contender{fenlocks, redsyncs, floors}
	slow, err := runSlow(ctx, b, who)
	if err != nil {
		t.Fatal(err)
	}
	if least := slices.Min(slow.slow["redsync"]); least < b.size.delay {
		t.Errorf("redsync took %v with a server that answers %v late", least, b.size.delay)
	}
	network, err := runNetwork(ctx, b, who)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range weathers {
		for _, c := range who {
			s := network.samples[w.name][c.name]
			if w.last.Cut && c.name != fenlocks.name { // the floor is not measured there, and redsync may take too long
				continue
			}
			if len(s) != network.cycles || slices.Min(s) < w.far*9/10 {
				t.Errorf("%s, %s: %v, want %d, each of a round trip", w.name, c.name, s, network.cycles)
			}
		}
	}
	if s := network.samples["1 ms, one server always late"]["redsync"]; slices.Min(s) < lateBy {
		t.Errorf("redsync, which waits for all servers, took %v with one that is %v late", slices.Min(s), lateBy)
	}
	kinds, err := runKinds(ctx, b, kindsOfLocks)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range kindsOfLocks {
		if far := kinds.results[1].samples[c.name]; len(far) != b.size.rounds || slices.Min(far) < 2*kinds.far {
			t.Errorf("%s, far away: %v, want %d times of two round trips", c.name, far, b.size.rounds)
		}
	}
	opened, err := openAll(ctx, b, severals, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(opened)
	release, err := opened[0].acquire(ctx, "bench:names")
	if err != nil {
		t.Fatal(err)
	}
	exist := []string{"EXISTS"}
	for _, name := range severalNames("bench:names") {
		exist = append(exist, valkeynode.DefaultPrefix+name)
	}
	// A server that the majority did not need may be behind.
	for b.servers[0].Do(exist...) != fmt.Sprint(atOnce) {
		if err := sleep(ctx, time.Millisecond); err != nil {
			t.Fatalf("not all %d names are leased", atOnce)
		}
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

// checkTable checks that a table has so many rows, and a number in each cell. Of the contenders
// that are not fenlock's own, one may have hung.
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
		rival := slices.ContainsFunc(slices.Concat(entrants, listeners), func(c contender) bool {
			return !strings.HasPrefix(c.name, "fenlock") && !strings.HasPrefix(c.name, "floor") &&
				slices.Contains(row[:min(2, len(row))], c.name)
		})
		if !rival && slices.ContainsFunc(row, func(cell string) bool {
			return cell == "-" || cell == "0 µs" || cell == "0.0 ms"
		}) {
			t.Errorf("the row %q has a cell without a number", row)
		}
	}
	for _, note := range table.notes {
		if strings.HasPrefix(note, "fenlock:") || strings.HasPrefix(note, "floor") {
			t.Error(note)
		}
	}
	if strings.Contains(text.String(), "%!") || strings.Contains(text.String(), "NaN") {
		t.Errorf("badly formatted:\n%s", &text)
	}
}

func checkPanel(t *testing.T, p *panel, lines int, want []float64) {
	t.Helper()
	if p == nil {
		t.Fatal("no drawing")
	}
	xs, most := p.extent()
	if len(p.series) != lines || !slices.Equal(xs, want) || most <= 0 {
		t.Errorf("%d lines over %v up to %v, want %d over %v", len(p.series), xs, most, lines, want)
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
