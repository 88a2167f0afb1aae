package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fenlock/fenlock"
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
	return ofLocks(func(ctx context.Context, name string) (*fenlock.Lock, error) { return l.AcquireShared(ctx, name) }, l),
		err
}

func openSlot(b *bench) (client, error) {
	l, err := b.locker()
	if err != nil {
		return nil, err
	}
	names := make(map[string]*fenlock.Slots)
	return ofLocks(func(ctx context.Context, name string) (*fenlock.Slot, error) {
		slots := names[name]
		if slots == nil {
			if slots, err = l.Slots(name, 5); err != nil {
				return nil, err
			}
			names[name] = slots
		}
		return slots.Acquire(ctx)
	}, l), nil
}

func openSeveral(b *bench) (client, error) {
	l, err := b.locker()
	return ofLocks(func(ctx context.Context, name string) (*fenlock.Locks, error) {
		return l.AcquireAll(ctx, severalNames(name))
	}, l), err
}

// kindsResult is by how far the servers are: on this machine, where cores are what is scarce, and
// behind a network, where round trips are.
type kindsResult struct {
	far     time.Duration // a round trip
	results [2]*cycleResult
}

// farCycles is how many cycles fewer are measured there.
const farCycles = 10

func runKinds(ctx context.Context, b *bench, who []contender) (*kindsResult, error) {
	r := &kindsResult{far: 2 * time.Millisecond}
	far, networks := b.behind(r.far)
	defer closeNetworks(networks)
	far.size.cycles = max(1, b.size.cycles/farCycles)
	for i, some := range []*bench{b, far} {
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
		r.results[i].rows(t, b, []string{where}, fenlocks.name)
	}
	return t
}
