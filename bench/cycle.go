package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// cycle is acquire and release, one at a time, with no other client around.
type cycleResult struct {
	*turns
	samples map[string][]time.Duration // per round, the mean of a cycle
	allocs  map[string][]float64       // the same, allocations of the whole process
}

func runCycle(ctx context.Context, b *bench, who []contender) (*cycleResult, error) {
	t, err := b.takeTurns(ctx, who, 1)
	if err != nil {
		return nil, err
	}
	defer t.close()
	r := &cycleResult{t, map[string][]time.Duration{}, map[string][]float64{}}
	return r, t.each(b.size.rounds, func(_, i int) error {
		var d time.Duration
		before := mallocs()
		err := within(ctx, b.giveUp, func(ctx context.Context) (err error) {
			d, err = measureCycle(ctx, t.clients[i][0], "bench:cycle", b.size.cycles)
			return err
		})
		if err != nil {
			return err
		}
		name, allocs := t.names[i], float64(mallocs()-before)
		r.samples[name] = append(r.samples[name], d)
		r.allocs[name] = append(r.allocs[name], allocs/float64(b.size.cycles))
		return nil
	})
}

// mallocs returns how many allocations this process has made.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func (r *cycleResult) report(b *bench) *table {
	t := &table{
		title: "cycle: acquire and release, uncontended, one at a time",
		method: fmt.Sprintf("%d rounds, interleaved, of %d cycles each; a round counts with its mean; ratios are of one round, their median (p10–p90); TTL %v for all",
			b.size.rounds, b.size.cycles, b.theirTTL()),
		header: []string{"", "median", "p10", "p90", "÷ fenlock", "÷ floor", "allocations"},
	}
	r.rows(t, b, nil, fenlocks.name, floors.name)
	return t
}

// rows adds a row for each contender, with its ratios to others.
func (r *cycleResult) rows(t *table, b *bench, before []string, others ...string) {
	for _, name := range r.names {
		s := r.samples[name]
		cells := append(slices.Clone(before), name, micros(median(s)), micros(percentile(s, 0.1)), micros(percentile(s, 0.9)))
		for _, other := range others {
			cells = append(cells, spread(ratios(s, r.samples[other])))
		}
		t.row(append(cells, fmt.Sprintf("%.1f", median(r.allocs[name])))...)
		if r.gaveUp[name] {
			t.note("%s: hung in round %d for %v, and left out from then on", name, len(s)+1, b.giveUp)
		}
	}
}
