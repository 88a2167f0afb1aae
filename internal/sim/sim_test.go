package sim

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// A run keeps little: the collector would have as much to do as the simulator.
func init() { debug.SetGCPercent(1000) }

// Once it is quiet, a client has to wait, or the bound would say nothing.
func TestASeedIsARun(t *testing.T) {
	seen, waited := make(map[uint64]uint64), time.Duration(0)
	// In the last ones, a client is closed while callers wait for several names.
	seeds := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 5213, 5310, 5331}
	if !campaign {
		seeds = seeds[len(seeds)-8:]
	}
	for _, seed := range seeds {
		first, second := Run(seed, Options{}), Run(seed, Options{Trace: func(string) {}})
		if first.Hash != second.Hash || first.Events != second.Events || first.Simulated != second.Simulated {
			t.Errorf("seed %d: %x after %d events in %v, then %x after %d in %v", seed,
				first.Hash, first.Events, first.Simulated, second.Hash, second.Events, second.Simulated)
		}
		waited = max(waited, first.Longest)
		if first.Acquired == 0 || first.Longest > first.Bound {
			t.Errorf("seed %d: %+v", seed, first)
		}
		if other, ok := seen[first.Hash]; ok {
			t.Errorf("seeds %d and %d give the same run", other, seed)
		}
		seen[first.Hash] = seed
	}
	if waited == 0 {
		t.Error("nobody ever waits")
	}
}

func TestManySeeds(t *testing.T) {
	seeds := 10_000
	if !campaign {
		seeds = 400
	}
	var total Total
	var shortest time.Duration
	Runs(0, seeds, runtime.NumCPU(), Options{}, func(r Result) bool {
		total.Add(r)
		for _, v := range r.Violations {
			t.Errorf("seed %d: %v; go run ./internal/sim/run -seed %d -seeds 1 -v", r.Seed, v, r.Seed)
		}
		if shortest == 0 || r.Simulated < shortest {
			shortest = r.Simulated
		}
		return total.Failed <= 5
	})
	if total.Failed > 0 {
		return
	}
	for _, fault := range total.Missing() {
		t.Errorf("%q never struck while a lock was held", fault)
	}
	if total.Runs != seeds || total.Acquired < 10*seeds || total.Extended < 10*seeds || total.Shared < seeds ||
		total.Downgraded < seeds/10 || total.Adopted < seeds/10 || shortest < time.Minute {
		t.Errorf("too little happens: %d runs of %v or more", total.Runs, shortest)
	}
	t.Log(total)
}

// The order of the results is that of the seeds, and an early end ends it all.
func TestRunsInOrder(t *testing.T) {
	next := uint64(5)
	Runs(5, 30, 3, Options{}, func(r Result) bool {
		if r.Seed != next {
			t.Errorf("seed %d; want %d", r.Seed, next)
		}
		next++
		return next < 15
	})
	if next != 15 {
		t.Errorf("stopped at %d", next)
	}
}

// TestSteps has each step of some hundred runs be one of the models that are proved.
func TestSteps(t *testing.T) {
	seeds := 400
	if !campaign {
		seeds = 80
	}
	// In these the taps or the simulator were wrong once. In 2230 a release that was sent for what
	// a store had been before gave the name there. No engine does so: the store itself is asked
	// when a name is given. In 501193 a process exports a lock that it has adopted, whose mark is
	// smaller than the exporter's: the model had one mark for both. In 302350 a waiter asked 674
	// times in two seconds for what it was giving back.
	for _, seed := range []uint64{147, 353, 511, 2131, 2230, 2383, 20049, 21222, 501193, 302350} {
		for _, v := range Run(seed, Options{Steps: true}).Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
	}
	var total Total
	Runs(0, seeds, runtime.NumCPU(), Options{Steps: true}, func(r Result) bool {
		total.Add(r)
		for _, v := range r.Violations {
			t.Errorf("seed %d: %v", r.Seed, v)
		}
		return total.Failed <= 5
	})
	for _, action := range []string{"admit", "new", "weak", "known"} {
		if total.Admissions[action] == 0 && campaign {
			t.Errorf("no store was admitted by %s", action)
		}
	}
	if total.Steps < 1000*seeds || total.Untied > seeds/8 {
		t.Errorf("%d steps in %d runs, of which %d were not looked at to their end", total.Steps, seeds, total.Untied)
	}
}

// No lock is lost where servers are slow and stall, and no more goes wrong.
func TestOverloadTakesNoLock(t *testing.T) {
	seeds := uint64(300)
	if !campaign {
		seeds = 40
	}
	acquired, struck := 0, 0
	for seed := range seeds {
		r := Run(seed, Options{profile: func(p *profile) { p.burden(int(seed) % 2) }})
		for _, v := range r.Violations {
			t.Errorf("seed %d: %v", seed, v)
		}
		acquired, struck = acquired+r.Acquired, struck+r.Faults[stalled].Held
	}
	if acquired < 10*int(seeds) || struck < int(seeds) {
		t.Errorf("%d locks, %d stalls while one was held", acquired, struck)
	}
	t.Log(acquired, "locks,", struck, "stalls")
}
