package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// handover is the time from the call of release to the moment at which a waiter
// elsewhere has the lock.
type handoverResult struct {
	names   []string
	samples map[string][]time.Duration
	gaveUp  map[string]bool
	cycles  []time.Duration // fenlock's, of the same rounds
}

// settle is how long a waiter waits before the release: random, so that it says
// nothing about where a poller is in its delay.
func settle() time.Duration { return 50*time.Millisecond + rand.N(50*time.Millisecond) }

func measureHandover(ctx context.Context, holder, waiter client, name string) (time.Duration, error) {
	release, err := holder.acquire(ctx, name)
	if err != nil {
		return 0, err
	}
	type outcome struct {
		at  time.Time
		err error
	}
	got := make(chan outcome, 1)
	go func() {
		release, err := waiter.acquire(ctx, name)
		at := time.Now()
		if err == nil {
			err = release()
		}
		got <- outcome{at, err}
	}()
	time.Sleep(settle())
	start := time.Now()
	if err := release(); err != nil {
		return 0, err
	}
	var o outcome
	if !returned(ctx, func() { o = <-got }) {
		return 0, errGaveUp
	}
	if o.err == nil && o.at.Before(start) {
		return 0, errors.New("the waiter had the lock before it was released")
	}
	return o.at.Sub(start), o.err
}

func runHandover(ctx context.Context, b *bench, who []contender) (*handoverResult, error) {
	r := &handoverResult{samples: map[string][]time.Duration{}, gaveUp: map[string]bool{}}
	pairs := make([][]client, len(who))
	for i, c := range who {
		r.names = append(r.names, c.name)
		opened, err := openAll(ctx, b, c, 2)
		if err != nil {
			return nil, err
		}
		defer closeAll(opened)
		pairs[i] = opened
	}
	for round := range b.size.rounds + 1 {
		for k := range who {
			i := (round + k) % len(who)
			name, pair := who[i].name, pairs[i]
			if r.gaveUp[name] {
				continue
			}
			limit, cancel := limited(ctx, b.giveUp)
			d, err := measureHandover(limit, pair[0], pair[1], "bench:handover")
			gaveUp := context.Cause(limit) == errGaveUp
			cancel()
			switch {
			case gaveUp:
				r.gaveUp[name] = true
			case err != nil:
				return nil, fmt.Errorf("handover: %s: %w", name, err)
			case round > 0: // in the first one, clients open what they need for waiting
				r.samples[name] = append(r.samples[name], d)
			}
			if name == "fenlock" && err == nil {
				d, err := measureCycle(ctx, pair[0], "bench:handover", b.size.cycles/5+1)
				if err != nil {
					return nil, err
				}
				r.cycles = append(r.cycles, d)
			}
		}
	}
	return r, nil
}

func (r *handoverResult) report(b *bench) *table {
	t := &table{
		title: "handover: from the call of release until a waiter in another client has the lock",
		method: fmt.Sprintf("%d rounds, interleaved, one handover each; released 50 to 100 ms after the waiter came; p99 of fewer than 100 is the largest",
			b.size.rounds),
		header: []string{"", "median", "p99", "÷ fenlock"},
	}
	ours := median(r.samples["fenlock"])
	for _, name := range r.names {
		s := r.samples[name]
		t.row(name, micros(median(s)), micros(percentile(s, 0.99)), ratio(median(s), ours))
		if r.gaveUp[name] {
			t.note("%s: no handover within %v in round %d, and left out from then on", name, b.giveUp, len(s)+1)
		}
	}
	if len(r.samples["fenlock"]) == 0 {
		return t
	}
	cycle := median(r.cycles)
	t.target(ours <= 2*cycle, "fenlock's median is at most 2 of its cycles (%s): it is %s of %s",
		micros(2*cycle), ratio(ours, cycle), micros(cycle))
	if theirs := r.samples["redsync"]; len(theirs) > 0 {
		t.target(median(theirs) >= 50*ours, "redsync's median is at least 50 times fenlock's: it is %s", ratio(median(theirs), ours))
	}
	return t
}
