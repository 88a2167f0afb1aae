package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// handover is the time from the call of release to the moment at which a waiter
// elsewhere has the lock.
type handoverResult struct {
	*turns
	samples map[string][]time.Duration // after a long pause
	busy    map[string][]time.Duration // after a short one

	// floors are what a handover costs at the least, in the same rounds and after the same pauses.
	floors, busyFloors []time.Duration
}

func measureHandover(ctx context.Context, holder, waiter client, name string, p pause) (time.Duration, error) {
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
	p.sleep()
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
	t, err := b.takeTurns(ctx, who, 2)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var floor *floorHandover // none where there are no servers: then the locks are not fenlock's own
	if len(b.servers) > 0 {
		channel := floorChannel()
		if floor, err = openFloorHandover(b, channel, channel); err != nil {
			return nil, err
		}
		defer floor.close()
	}
	r := &handoverResult{turns: t, samples: map[string][]time.Duration{}, busy: map[string][]time.Duration{}}
	return r, t.each(b.size.rounds+1, func(round, i int) error {
		name, pair := t.names[i], t.clients[i]
		var long, short time.Duration
		err := within(ctx, b.giveUp, func(ctx context.Context) (err error) {
			if long, err = measureHandover(ctx, pair[0], pair[1], "bench:handover", longPause); err == nil {
				short, err = measureHandover(ctx, pair[1], pair[0], "bench:handover", shortPause)
			}
			return err
		})
		if err != nil {
			return err
		}
		if round > 0 { // in the first one, clients open what they need for waiting
			r.samples[name], r.busy[name] = append(r.samples[name], long), append(r.busy[name], short)
		}
		if name != "fenlock" || floor == nil {
			return nil
		}
		return within(ctx, b.giveUp, func(ctx context.Context) error {
			long, err := floor.measure(ctx, longPause)
			if err != nil {
				return err
			}
			short, err := floor.measure(ctx, shortPause)
			r.floors, r.busyFloors = append(r.floors, long), append(r.busyFloors, short)
			return err
		})
	})
}

func (r *handoverResult) report(b *bench) *table {
	t := &table{
		title: "handover: from the call of release until a waiter in another client has the lock",
		method: fmt.Sprintf("%d rounds, interleaved, one handover of each kind; released 50 to 100 ms after the waiter came, and when busy, 2 to 3 ms after; p99 of fewer than 100 is the largest",
			b.size.rounds),
		header: []string{"", "median", "p99", "÷ fenlock", "busy, median", "p99", "÷ fenlock"},
	}
	ours, oursBusy := median(r.samples["fenlock"]), median(r.busy["fenlock"])
	for _, name := range r.names {
		s, busy := r.samples[name], r.busy[name]
		t.row(name, micros(median(s)), micros(percentile(s, 0.99)), ratio(median(s), ours),
			micros(median(busy)), micros(percentile(busy, 0.99)), ratio(median(busy), oursBusy))
		if r.gaveUp[name] {
			t.note("%s: no handover within %v in round %d, and left out from then on", name, b.giveUp, len(s)+1)
		}
	}
	if len(r.floors) > 0 {
		t.note("the floor, a script that writes a lease and publishes, on raw sockets, takes %s, and when busy %s",
			micros(median(r.floors)), micros(median(r.busyFloors)))
	}
	return t
}
