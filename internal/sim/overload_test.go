package sim

import (
	"testing"
)

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
