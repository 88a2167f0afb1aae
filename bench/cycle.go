package main

import (
	"context"
	"fmt"
	"time"
)

// cycle is acquire and release, one at a time, with nobody else around.
type cycleResult struct {
	names   []string
	samples map[string][]time.Duration // per round, the mean of a cycle
}

func measureCycle(ctx context.Context, c client, name string, cycles int) (time.Duration, error) {
	start := time.Now()
	for range cycles {
		release, err := c.acquire(ctx, name)
		if err != nil {
			return 0, err
		}
		if err := release(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(cycles), nil
}

func runCycle(ctx context.Context, b *bench, who []contender) (*cycleResult, error) {
	r := &cycleResult{samples: map[string][]time.Duration{}}
	clients := make([]client, len(who))
	for i, c := range who {
		r.names = append(r.names, c.name)
		opened, err := openAll(ctx, b, c, 1)
		if err != nil {
			return nil, err
		}
		defer closeAll(opened)
		clients[i] = opened[0]
	}
	for round := range b.size.rounds {
		for k := range who {
			i := (round + k) % len(who) // nobody is always first
			d, err := measureCycle(ctx, clients[i], "bench:cycle", b.size.cycles)
			if err != nil {
				return nil, fmt.Errorf("cycle: %s: %w", who[i].name, err)
			}
			r.samples[who[i].name] = append(r.samples[who[i].name], d)
		}
	}
	return r, nil
}

func (r *cycleResult) report(b *bench) *table {
	t := &table{
		title: "cycle: acquire and release, uncontended, one at a time",
		method: fmt.Sprintf("%d rounds, interleaved, of %d cycles each; a round counts with its mean",
			b.size.rounds, b.size.cycles),
		header: []string{"", "median", "p10", "p90", "÷ fenlock"},
	}
	for _, name := range r.names {
		s := r.samples[name]
		t.row(name, micros(median(s)), micros(percentile(s, 0.1)), micros(percentile(s, 0.9)),
			ratio(median(s), median(r.samples["fenlock"])))
	}
	return t
}
