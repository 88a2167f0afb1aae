package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// slow is an acquisition while one node answers late.
type slowResult struct {
	names []string
	delay time.Duration

	// fast and slow are the medians of each round, without the slow node and with
	// it, of acquire alone.
	fast, slow map[string][]time.Duration
}

// measureAcquire returns the median of the time that acquire takes. The first one
// does not count: whatever was idle before is slower.
func measureAcquire(ctx context.Context, c client, name string, cycles int) (time.Duration, error) {
	var all []time.Duration
	for i := range cycles + 1 {
		start := time.Now()
		release, err := c.acquire(ctx, name)
		if i > 0 {
			all = append(all, time.Since(start))
		}
		if err == nil {
			err = release()
		}
		if err != nil {
			return 0, err
		}
	}
	return median(all), nil
}

func runSlow(ctx context.Context, b *bench, who []contender) (*slowResult, error) {
	r := &slowResult{delay: b.size.delay, fast: map[string][]time.Duration{}, slow: map[string][]time.Duration{}}
	last := len(b.servers) - 1
	relay, err := newRelay(b.servers[last].Addr(), b.size.delay/2, nil)
	if err != nil {
		return nil, err
	}
	defer relay.close()
	delayed := *b
	delayed.via = slices.Clone(b.addresses())
	delayed.via[last] = relay.address()
	benches := [2]*bench{b, &delayed}
	clients := make([][2]client, len(who))
	for i, c := range who {
		r.names = append(r.names, c.name)
		for k, some := range benches {
			opened, err := openAll(ctx, some, c, 1)
			if err != nil {
				return nil, err
			}
			defer closeAll(opened)
			clients[i][k] = opened[0]
		}
	}
	for round := range b.size.slows + 1 {
		for k := range who {
			i := (round + k) % len(who)
			name := who[i].name
			for turn := range benches {
				which := (round + turn) % 2
				// Names of their own: the slow node still has what others do not.
				d, err := measureAcquire(ctx, clients[i][which], fmt.Sprint("bench:slow:", which), b.size.slow)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				if round == 0 { // what was opened is used for the first time
					continue
				}
				to := [2]map[string][]time.Duration{r.fast, r.slow}[which]
				to[name] = append(to[name], d)
			}
		}
	}
	return r, nil
}

func (r *slowResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("slow: one of %d nodes answers %v late", len(b.servers), r.delay),
		method: fmt.Sprintf("%d rounds, interleaved, of %d acquisitions each, nobody else around; a round counts with its median; ratios are of one round, their median (p10–p90); TTL %v for all",
			b.size.slows, b.size.slow, b.theirTTL()),
		header: []string{"", "acquire, no slow node", "one slow node", "ratio"},
	}
	for _, name := range r.names {
		t.row(name, micros(median(r.fast[name])), micros(median(r.slow[name])), spread(ratios(r.slow[name], r.fast[name])))
	}
	if x := ratios(r.slow["fenlock"], r.fast["fenlock"]); len(x) > 0 {
		t.target(median(x) <= 1.3, "fenlock's acquire takes at most 1.3 times as long: %s", spread(x))
	}
	return t
}
