package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/proxy"
)

// slow is an acquisition while one node answers late.
type slowResult struct {
	*turns
	delay time.Duration

	// fast and slow are the medians of each round, without the slow node and with
	// it, of acquire alone.
	fast, slow map[string][]time.Duration
}

func runSlow(ctx context.Context, b *bench, who []contender) (*slowResult, error) {
	last := len(b.servers) - 1
	network := proxy.New(b.servers[last].Addr(), nil)
	defer network.Close()
	late := proxy.Effect{Delay: b.size.delay / 2}
	network.Impose(proxy.Rule{To: late, From: late})
	delayed := *b
	delayed.via = slices.Clone(b.addresses())
	delayed.via[last] = network.Addr(0)
	var clients [2][][]client
	var t *turns
	for k, some := range []*bench{b, &delayed} {
		var err error
		if t, err = some.takeTurns(ctx, who, 1); err != nil {
			return nil, err
		}
		defer t.close()
		clients[k] = t.clients
	}
	r := &slowResult{t, b.size.delay, map[string][]time.Duration{}, map[string][]time.Duration{}}
	return r, t.each(b.size.slows+1, func(round, i int) error {
		for turn := range clients {
			which := (round + turn) % 2
			// Names of their own: the slow node still has what others do not.
			all, err := measureEach(ctx, clients[which][i][0], fmt.Sprint("bench:slow:", which), b.size.slow+1)
			if err != nil {
				return err
			}
			d := median(all[1:]) // whatever was idle before is slower
			to := [2]map[string][]time.Duration{r.fast, r.slow}[which]
			if round > 0 { // in the first one, what was opened is used for the first time
				to[t.names[i]] = append(to[t.names[i]], d)
			}
		}
		return nil
	})
}

func (r *slowResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("slow: one of %d nodes answers %v late", len(b.servers), r.delay),
		method: fmt.Sprintf("%d rounds, interleaved, of %d acquisitions each, without contention; a round counts with its median; ratios are of one round, their median (p10–p90); TTL %v for all",
			b.size.slows, b.size.slow, b.theirTTL()),
		header: []string{"", "acquire, no slow node", "one slow node", "ratio"},
	}
	for _, name := range r.names {
		t.row(name, micros(median(r.fast[name])), micros(median(r.slow[name])), spread(ratios(r.slow[name], r.fast[name])))
	}
	return t
}
