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
