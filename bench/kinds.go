package main

import (
	"context"
	"fmt"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// What other kinds of locks cost where nobody is in their way: several names at a time, and a
// name that is shared, beside one name alone.

// atOnce is how many names are taken at a time.
const atOnce = 5

var (
	sharers       = contender{"fenlock/shared", "AcquireShared", openShared}
	severals      = contender{"fenlock/5 names", "AcquireAll of 5 names", openSeveral}
	multis        = contender{"redislock/5 names", "ObtainMulti of 5 names on ONE server", openMulti}
	kindsOfLocks  = []contender{fenlocks, sharers, severals, redislocks, multis}
	everyKindOnly = []contender{sharers, severals, multis}
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

// openMulti is openRedislock for several names.
func openMulti(b *bench) (client, error) {
	r := redis.NewClient(&redis.Options{Addr: b.addresses()[0]})
	l := redislock.New(r)
	return library{func(ctx context.Context, name string) (func() error, error) {
		lock, err := l.ObtainMulti(ctx, severalNames("redislock:"+name), b.theirTTL(), nil)
		if err != nil {
			return nil, err
		}
		return func() error { return lock.Release(context.Background()) }, nil
	}, func() { r.Close() }}, nil
}

// kindsResult is cycleResult, read in another way.
type kindsResult struct{ *cycleResult }

func runKinds(ctx context.Context, b *bench, who []contender) (*kindsResult, error) {
	r, err := runCycle(ctx, b, who)
	return &kindsResult{r}, err
}

func (r *kindsResult) report(b *bench) *table {
	t := &table{
		title: "kinds: acquire and release of several names, and of a name that is shared, uncontended, one at a time",
		method: fmt.Sprintf("%d rounds, interleaved, of %d cycles each; a round counts with its mean; ratios are of one round, their median (p10–p90); TTL %v for all",
			b.size.rounds, b.size.cycles, b.theirTTL()),
		header: []string{"", "median", "p10", "p90", "÷ fenlock", "÷ redislock", "allocations"},
	}
	for _, name := range r.names {
		s := r.samples[name]
		t.row(name, micros(median(s)), micros(percentile(s, 0.1)), micros(percentile(s, 0.9)),
			spread(ratios(s, r.samples[fenlocks.name])), spread(ratios(s, r.samples[redislocks.name])), fmt.Sprintf("%.1f", median(r.allocs[name])))
		if r.gaveUp[name] {
			t.note("%s: hung in round %d for %v, and left out from then on", name, len(s)+1, b.giveUp)
		}
	}
	for _, c := range []struct {
		a, b contender
		most float64
		what string
	}{
		{sharers, fenlocks, 1.1, "to share a name takes at most %.1f of the time for one alone: it is %s"},
		{severals, fenlocks, 1.5, "5 names take at most %.1f of the time for one: it is %s"},
	} {
		if x := ratios(r.samples[c.a.name], r.samples[c.b.name]); len(x) > 0 {
			t.target(median(x) <= c.most, c.what, c.most, spread(x))
		}
	}
	if x := ratios(r.samples[severals.name], r.samples[multis.name]); len(x) > 0 {
		t.note("5 names on a majority of %d servers, by fenlock, take %s of what they take redislock on one", len(b.servers), spread(x))
	}
	return t
}
