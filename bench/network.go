package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fenlock/fenlock/internal/testserver/proxy"
)

// What an acquisition takes over a network: how far the servers are. It is also what a server that
// is late now and then, always, or gone does to the slowest of a thousand.

// weather is a network before the servers.
type weather struct {
	name string
	far  time.Duration // a round trip to each server
	last proxy.Rule    // what else is wrong before the last server
	all  proxy.Rule    // and before each
}

// lateBy is how late a message is that is late.
const lateBy = 20 * time.Millisecond

var (
	rarely   = proxy.Effect{OneIn: 100, Late: lateBy}
	weathers = []weather{
		{name: "0.2 ms", far: 200 * time.Microsecond},
		{name: "1 ms", far: time.Millisecond},
		{name: "5 ms", far: 5 * time.Millisecond},
		{name: "1 ms, one server late at 1 %", far: time.Millisecond, last: proxy.Rule{To: rarely, From: rarely}},
		{name: "1 ms, each server late at 1 %", far: time.Millisecond, all: proxy.Rule{To: rarely, From: rarely}},
		{name: "1 ms, one server always late", far: time.Millisecond, last: proxy.Rule{From: proxy.Effect{Delay: lateBy}}},
		{name: "1 ms, one server down", far: time.Millisecond, last: proxy.Rule{Cut: true}},
	}
)

// behind returns the same with a network before each server, to which a round trip takes so long.
// The caller closes them.
func (b *bench) behind(far time.Duration) (behind *bench, networks []*proxy.Proxy) {
	some, way := *b, proxy.Effect{Delay: far / 2}
	some.via = nil
	for _, s := range b.servers {
		network := proxy.New(s.Addr(), nil)
		network.Impose(proxy.Rule{To: way, From: way})
		networks, some.via = append(networks, network), append(some.via, network.Addr(0))
	}
	return &some, networks
}

func closeNetworks(all []*proxy.Proxy) {
	for _, n := range all {
		n.Close()
	}
}

type networkResult struct {
	names   []string
	cycles  int
	samples map[string]map[string][]time.Duration // by weather and contender: each acquisition
	gaveUp  map[string]map[string]bool
}

func runNetwork(ctx context.Context, b *bench, who []contender) (*networkResult, error) {
	var names []string
	for _, c := range who {
		names = append(names, c.name)
	}
	r := &networkResult{names: names, cycles: b.size.networks * b.size.network,
		samples: map[string]map[string][]time.Duration{}, gaveUp: map[string]map[string]bool{}}
	for _, w := range weathers {
		if err := r.measure(ctx, b, who, w); err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return r, nil
}

func (r *networkResult) measure(ctx context.Context, b *bench, who []contender, w weather) error {
	behind, networks := b.behind(w.far)
	defer closeNetworks(networks)
	if w.last.Cut { // the floor's sockets are not opened again
		who = slices.DeleteFunc(slices.Clone(who), func(c contender) bool { return c.name == floors.name })
	}
	t, err := behind.takeTurns(ctx, who, 1)
	if err != nil {
		return err
	}
	defer t.close()
	samples := map[string][]time.Duration{}
	r.samples[w.name], r.gaveUp[w.name] = samples, t.gaveUp
	return t.each(b.size.networks+1, func(round, i int) error {
		if round == 1 && i == t.first(round) { // in the round before, all have connected
			for n, network := range networks {
				network.Impose(w.all)
				if n == len(networks)-1 {
					network.Impose(w.last)
				}
			}
		}
		var all []time.Duration
		err := within(ctx, b.giveUp, func(ctx context.Context) (err error) {
			all, err = measureEach(ctx, t.clients[i][0], "bench:network", b.size.network)
			return err
		})
		if err == nil && round > 0 {
			samples[t.names[i]] = append(samples[t.names[i]], all...)
		}
		return err
	})
}

// measureEach returns how long each acquisition took.
func measureEach(ctx context.Context, c client, name string, cycles int) (all []time.Duration, err error) {
	for range cycles {
		start := time.Now()
		release, err := c.acquire(ctx, name)
		all = append(all, time.Since(start))
		if err == nil {
			err = release()
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *networkResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("network: an acquisition on %d servers behind a network, uncontended, one at a time",
			len(b.servers)),
		method: fmt.Sprintf("%d acquisitions each, in %d rounds, interleaved; the round trip is to each server; late is by %v, for chosen packets of either direction; TTL %v for all",
			r.cycles, b.size.networks, lateBy, b.theirTTL()),
		header: []string{"round trip", "", "median", "p99", "p99.9", "p99.9 ÷ median"},
	}
	for _, w := range weathers {
		for _, name := range r.names {
			s := r.samples[w.name][name]
			if len(s) == 0 && !r.gaveUp[w.name][name] {
				continue // the floor, where a server is down
			}
			if len(s) == 0 {
				t.row(w.name, name, "-", "-", "-", "-")
				t.note("%s, %s: fewer than %d acquisitions in %v, and left out from then on", w.name, name, b.size.network,
					b.giveUp)
				continue
			}
			t.row(w.name, name, micros(median(s)), micros(percentile(s, 0.99)), micros(percentile(s, 0.999)),
				ratio(percentile(s, 0.999), median(s)))
			if r.gaveUp[w.name][name] {
				t.note("%s, %s: fewer than %d acquisitions in %v in a later round, and left out from then on", w.name, name,
					b.size.network, b.giveUp)
			}
		}
	}
	return t
}
