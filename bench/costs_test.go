package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// What a lock without waiters costs: every figure of that, on real servers, as small as possible.
func TestCosts(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	b := tiny(10 * time.Minute)
	b.kind = testserver.Kinds(t)[0]
	b.ttl = 2 * time.Second // nothing here is to lose a lock because the machine is busy
	if err := start(ctx, t, b); err != nil {
		t.Fatal(err)
	}
	t.Run("load", func(t *testing.T) {
		rivals := b.present(rivals)
		r, table := measure(ctx, t, b, runLoad, rivals, 2*len(rivals))
		checkLoad(t, r, b, rivals, 2)
		checkPanel(t, table.panel, len(rivals), []float64{1, 64})
	})
	t.Run("listeners", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runListeners, listeners, 2*len(listeners))
		for i, lockers := range []int{1, 4} {
			for _, c := range listeners {
				o := r.cycles[i][c.name]
				if len(o.wall) != b.size.rounds || len(o.cpu) != len(o.wall) || median(o.wall) <= 0 || median(o.cpu) <= 0 {
					t.Errorf("%d lockers, %s: %+v", lockers, c.name, o)
				}
			}
		}
	})
	t.Run("single", func(t *testing.T) {
		who := []contender{fenlocks, redislocks, valkeylockOne, floors}
		r, _ := measure(ctx, t, b, runSingle, who, len(who))
		checkLoad(t, r, b, who, 1)
	})
	t.Run("nodes", func(t *testing.T) {
		who := []contender{fenlocks, redsyncs, floors}
		r, table := measure(ctx, t, b, runNodes, who, 2*len(who))
		checkLoad(t, r, b, who, 2)
		checkPanel(t, table.panel, len(who), []float64{1, 6})
		if len(b.servers) != 5 || len(b.started) != 6 {
			t.Errorf("the other figures have %d servers, want 5; there are %d, want 6", len(b.servers), len(b.started))
		}
	})
	t.Run("capacity", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runCapacity, ourselves, len(b.size.nodes))
		for _, p := range r.points {
			if p.wall <= 0 || p.client <= 0 || p.server <= 0 {
				t.Errorf("%+v", p)
			}
		}
	})
	t.Run("groups", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runGroups, ourselves, 2*len(groupCounts))
		for _, row := range r.rows {
			if len(row.rates) != b.size.loads || len(row.client) != b.size.loads || slices.Min(row.rates) <= 0 ||
				slices.Min(row.client) <= 0 {
				t.Errorf("%+v", row)
			}
		}
	})
	t.Run("roundtrips", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runRoundtrips, ourselves, 5)
		if r.cycles != b.size.trips || len(r.more) != 5 || r.once() < 0 || r.once() > 1 {
			t.Errorf("%+v, %v at once", r, r.once())
		}
	})
	t.Run("held", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runHeld, ourselves, 1)
		if r.Locks != b.size.held || r.Nodes != 5 || r.TTL != b.ttl || r.Length < b.size.hold || r.CPU <= 0 ||
			r.Server <= 0 || r.Goroutines <= 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("memory", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runMemory, ourselves, 5)
		if r.names != b.size.names || len(r.before) != 5 || len(r.after) != 5 || slices.Min(r.before) <= 0 ||
			slices.Min(r.after) <= 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("slow", func(t *testing.T) {
		who := []contender{fenlocks, redsyncs, floors}
		r, _ := measure(ctx, t, b, runSlow, who, len(who))
		for _, c := range who {
			if len(r.fast[c.name]) != b.size.slows || len(r.slow[c.name]) != b.size.slows {
				t.Errorf("%s: %d and %d rounds, want %d", c.name, len(r.fast[c.name]), len(r.slow[c.name]), b.size.slows)
			}
		}
		// Redsync waits for all servers, so the slow one is in its way: if not, there
		// is none.
		if least := slices.Min(r.slow["redsync"]); least < b.size.delay {
			t.Errorf("redsync took %v with a server that answers %v late", least, b.size.delay)
		}
	})
	t.Run("network", func(t *testing.T) {
		who := []contender{fenlocks, redsyncs, floors}
		r, _ := measure(ctx, t, b, runNetwork, who, len(who)*len(weathers)-1)
		for _, w := range weathers {
			for _, c := range who {
				s := r.samples[w.name][c.name]
				if w.last.Cut && c.name == floors.name {
					continue
				}
				if len(s) != r.cycles || slices.Min(s) < w.far*9/10 {
					t.Errorf("%s, %s: %v, want %d, each of a round trip", w.name, c.name, s, r.cycles)
				}
			}
		}
		if s := r.samples["1 ms, one server always late"]["redsync"]; slices.Min(s) < lateBy {
			t.Errorf("redsync, which waits for all servers, took %v with one that is %v late", slices.Min(s), lateBy)
		}
	})
	t.Run("herd", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runHerd, ourselves, 2)
		for _, all := range [][][]herd{r.fenlock, r.flock} {
			for i, rounds := range all {
				for _, h := range rounds {
					if h.failed != 0 || i == 0 && h.counted != 5 || min(h.wall, h.cpu) <= 0 {
						t.Errorf("%+v", h)
					}
				}
			}
			if len(all) != 2 || len(all[0]) != b.size.stampedes || len(all[1]) != b.size.stampedes {
				t.Errorf("%+v", all)
			}
		}
	})
	t.Run("killed", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runKilled, ourselves, 2)
		if len(r.fenlock) != b.size.starts || len(r.flock) != b.size.starts ||
			min(slices.Min(r.fenlock), slices.Min(r.flock)) <= 0 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("command", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runCommand, ourselves, 6)
		if len(r.fenlock) != b.size.starts || len(r.flock) != b.size.starts || len(r.floor) != b.size.starts ||
			len(r.version) != b.size.starts || len(r.hello) != b.size.starts ||
			min(slices.Min(r.fenlock), slices.Min(r.flock), slices.Min(r.floor), slices.Min(r.version),
				slices.Min(r.hello)) <= 0 {
			t.Errorf("%+v", r)
		}
	})
}

func checkLoad(t *testing.T, r *loadResult, b *bench, who []contender, settings int) {
	t.Helper()
	for _, c := range who {
		if len(r.rates[c.name]) != settings {
			t.Fatalf("%s: %d settings, want %d", c.name, len(r.rates[c.name]), settings)
		}
		for i, rates := range r.rates[c.name] {
			if len(rates) != b.size.loads || slices.Min(rates) <= 0 {
				t.Errorf("%s, %+v: %v, want %d rates", c.name, r.settings[i], rates, b.size.loads)
			}
		}
		if n := r.failures[c.name]; n > 0 && (c.name == "fenlock" || strings.HasPrefix(c.name, "floor")) {
			t.Errorf("%s: %d failures", c.name, n)
		}
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

func TestLoadCountsCycles(t *testing.T) {
	t.Parallel()
	lock, calls := &fakeLock{}, 0
	failing := func(every int) client {
		return library{lock: func(ctx context.Context, name string) (func() error, error) {
			if calls++; calls%every == 0 {
				return nil, errors.New("it failed")
			}
			return lock.acquire(ctx, name)
		}}
	}
	start := time.Now()
	run, err := measureLoad(t.Context(), failing(3), []string{"x"}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	// Each third call fails. The measurement lasted at most as long as the call.
	if run.failures != calls/3 || lock.acquired != calls-run.failures || run.hung != 0 {
		t.Errorf("%+v, and %d acquisitions in %d calls", run, lock.acquired, calls)
	}
	if least := float64(lock.acquired) / time.Since(start).Seconds(); run.rate < least ||
		run.rate > float64(lock.acquired)/0.05 {
		t.Errorf("%v cycles per second, want at least %v and at most %v", run.rate, least, float64(lock.acquired)/0.05)
	}
	if _, err := measureLoad(t.Context(), failing(1), []string{"x"}, time.Minute); err == nil {
		t.Error("no error of a lock that always fails")
	}
}

// A locker that hangs ends the measurement after all, and is told of.
func TestLoadOfALockThatHangs(t *testing.T) {
	t.Parallel()
	lock := library{lock: func(ctx context.Context, name string) (func() error, error) {
		if name == "bench:load:1" { // that is never free
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(time.Millisecond)
		return func() error { return nil }, nil
	}, end: func() {}}
	r, err := runThroughput(t.Context(),
		&bench{giveUp: time.Minute, started: make([]*testserver.Server, 1),
			size: size{loads: 1, load: 10 * time.Millisecond}},
		[]contender{{name: "fenlock", open: func(*bench) (client, error) { return lock, nil }}}, nil, setting{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	table := r.nodesTable(tiny(time.Minute))
	if r.hung["fenlock"] != 1 || len(r.rates["fenlock"][0]) != 1 ||
		!strings.Contains(strings.Join(table.notes, "\n"), "a locker hung") {
		t.Errorf("%+v, with the notes %q", r, table.notes)
	}
}

// A server that was behind does not count for what is asked in second round trips, and a waiter
// that returned early is told of.
func TestWhatFiguresSay(t *testing.T) {
	b := tiny(time.Minute)
	trips := &roundtripsResult{cycles: 10000, more: []int{-500, 11, 0}}
	if notes := strings.Join(trips.report(b).notes, "\n"); trips.once() != 0.9989 ||
		!strings.Contains(notes, "99.890 %") || !strings.Contains(notes, "server 1 was behind") {
		t.Errorf("%v, with the notes %q", trips.once(), notes)
	}
	idle := &idleResult{lockers: 3, waiters: 6, length: time.Second, early: 1}
	if notes := strings.Join(idle.report(b).notes, "\n"); !strings.Contains(notes, "1 waiters returned although") {
		t.Errorf("a waiter returned early: the notes are %q", notes)
	}
}

func TestCapacityIsALine(t *testing.T) {
	r := &capacityResult{points: []capacityPoint{{nodes: 1, client: 30}, {nodes: 3, client: 77}, {nodes: 7, client: 90}}}
	if a, perNode := r.line(); a != 20 || perNode != 10 {
		t.Errorf("%v + %v for each node; want 20 + 10", a, perNode)
	}
	r.points = r.points[1:2]
	if a, perNode := r.line(); a != 0 || perNode != 25 {
		t.Errorf("one point: %v + %v for each node; want 0 + 25", a, perNode)
	}
}
