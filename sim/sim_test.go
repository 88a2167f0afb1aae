package sim

import (
	"testing"
	"time"
)

func TestASeedIsARun(t *testing.T) {
	seen := make(map[uint64]uint64)
	for seed := range uint64(20) {
		first, second := Run(seed, Options{}), Run(seed, Options{Trace: func(string) {}})
		if first.Hash != second.Hash || first.Events != second.Events || first.Simulated != second.Simulated {
			t.Errorf("seed %d: %x after %d events in %v, then %x after %d in %v", seed,
				first.Hash, first.Events, first.Simulated, second.Hash, second.Events, second.Simulated)
		}
		if other, ok := seen[first.Hash]; ok {
			t.Errorf("seeds %d and %d give the same run", other, seed)
		}
		seen[first.Hash] = seed
	}
}

func TestManySeeds(t *testing.T) {
	seeds := 2500
	if testing.Short() {
		seeds = 600
	}
	if race {
		seeds = min(seeds, 100)
	}
	var total Total
	for seed := range uint64(seeds) {
		r := Run(seed, Options{})
		total.Add(r)
		for _, v := range r.Violations {
			t.Errorf("seed %d: %v; go run ./sim/... -seed %d -seeds 1 -v", seed, v, seed)
		}
		if total.Failed > 5 {
			t.FailNow()
		}
	}
	for _, fault := range total.Missing() {
		t.Errorf("%q never struck while a lock was held", fault)
	}
	if total.Acquired < 10*seeds || total.Extended < 10*seeds {
		t.Error("too little happens")
	}
	t.Log(total)
}

// Once it is quiet, somebody has to wait, or the bound would say nothing.
func TestSomebodyWaits(t *testing.T) {
	waited := time.Duration(0)
	for seed := range uint64(20) {
		r := Run(seed, Options{})
		waited = max(waited, r.Longest)
		if r.Acquired == 0 || r.Longest > r.Bound {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
	if waited == 0 {
		t.Error("nobody ever waits")
	}
}
