package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
)

// What other kinds of locks cost without contention: several names at a time, a slot, and a name
// that is shared, beside one name alone.

// atOnce is how many names are taken at a time.
const atOnce = 5

var (
	sharers      = contender{"fenlock/shared", "AcquireShared", openShared}
	slots        = contender{"fenlock/slot", "one of 5 slots", openSlot}
	severals     = contender{"fenlock/5 names", "AcquireAll of 5 names", openSeveral}
	kindsOfLocks = []contender{fenlocks, sharers, slots, severals}
)

// severalNames are those of a name.
func severalNames(name string) (all []string) {
	for i := range atOnce {
		all = append(all, fmt.Sprint(name, ":", i))
	}
	return all
}

func openShared(b *bench) (client, error) {
	l, err := b.locker()
	return library{func(ctx context.Context, name string) (func() error, error) {
		lock, err := l.AcquireShared(ctx, name)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, func() { l.Close() }}, err
}

func openSlot(b *bench) (client, error) {
	l, err := b.locker()
	if err != nil {
		return nil, err
	}
	names := make(map[string]*fenlock.Slots)
	return library{func(ctx context.Context, name string) (func() error, error) {
		slots := names[name]
		if slots == nil {
			if slots, err = l.Slots(name, 5); err != nil {
				return nil, err
			}
			names[name] = slots
		}
		slot, err := slots.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return func() error { return slot.Release(context.Background()) }, nil
	}, func() { l.Close() }}, nil
}

func openSeveral(b *bench) (client, error) {
	l, err := b.locker()
	return library{func(ctx context.Context, name string) (func() error, error) {
		locks, err := l.AcquireAll(ctx, severalNames(name))
		if err != nil {
			return nil, err
		}
		return func() error { return locks.Release(context.Background()) }, nil
	}, func() { l.Close() }}, err
}

// kindsResult is by how far the servers are: on this machine, where cores are what is scarce, and
// behind a network, where round trips are.
type kindsResult struct {
	far     time.Duration // a round trip
	results [2]*cycleResult
}

// aWay is how long a message takes in each direction where servers are far.
const aWay = time.Millisecond

// farCycles is how many cycles fewer are measured there.
const farCycles = 10

func runKinds(ctx context.Context, b *bench, who []contender) (*kindsResult, error) {
	far := *b
	far.via = nil
	for _, s := range b.servers {
		network := proxy.New(s.Addr(), nil)
		defer network.Close()
		network.Impose(proxy.Rule{To: proxy.Effect{Delay: aWay}, From: proxy.Effect{Delay: aWay}})
		far.via = append(far.via, network.Addr(0))
	}
	far.size.cycles = max(1, b.size.cycles/farCycles)
	r := &kindsResult{far: 2 * aWay}
	for i, some := range []*bench{b, &far} {
		var err error
		if r.results[i], err = runCycle(ctx, some, who); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *kindsResult) report(b *bench) *table {
	t := &table{
		title: "kinds: acquire and release of several names, and of a name that is shared, uncontended, one at a time",
		method: fmt.Sprintf("on this machine, and %v away; %d rounds, interleaved, of %d cycles each, where it is far of %d; a round counts with its mean; ratios are of one round, their median (p10–p90); TTL %v for all",
			r.far, b.size.rounds, b.size.cycles, max(1, b.size.cycles/farCycles), b.theirTTL()),
		header: []string{"round trip", "", "median", "p10", "p90", "÷ fenlock", "allocations"},
	}
	for i, where := range []string{"here", r.far.String()} {
		r.results[i].kinds(t, b, where)
	}
	return t
}

// kinds adds the rows of one distance.
func (r *cycleResult) kinds(t *table, b *bench, where string) {
	for _, name := range r.names {
		s := r.samples[name]
		t.row(where, name, micros(median(s)), micros(percentile(s, 0.1)), micros(percentile(s, 0.9)),
			spread(ratios(s, r.samples[fenlocks.name])), fmt.Sprintf("%.1f", median(r.allocs[name])))
		if r.gaveUp[name] {
			t.note("%s: hung in round %d for %v, and left out from then on", name, len(s)+1, b.giveUp)
		}
	}
}
