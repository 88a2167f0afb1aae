package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lineHold is how long each waiter holds the lock.
const lineHold = time.Millisecond

// line is many waiters that arrive one after the other at a lock that is held. It is in which order
// they get it, and how long it takes them all.
type lineResult struct {
	*turns
	runs map[string][]lineRun
}

// lineRun is one round of one contender.
type lineRun struct {
	order []int         // of acquisition, as the numbers of arrival
	total time.Duration // from the first release to the last
	stuck bool          // not all had the lock in time
}

// measureLine returns when all waiters have come back, or soon after ctx is done:
// the run is stuck then.
func measureLine(ctx context.Context, holder client, waiters []client, gap time.Duration, name string) (lineRun,
	error) {
	release, err := holder.acquire(ctx, name)
	if err != nil {
		return lineRun{}, err
	}
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		run   lineRun
		end   time.Time
		first error
	)
	for i, w := range waiters {
		wait.Go(func() {
			release, err := w.acquire(ctx, name)
			if err == nil {
				mu.Lock() // while the lock is held, so this is the order of holding
				run.order = append(run.order, i)
				mu.Unlock()
				time.Sleep(lineHold)
				err = release()
			}
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if err == nil && now.After(end) {
				end = now
			}
			if first == nil {
				first = err
			}
		})
		time.Sleep(gap)
	}
	longPause.sleep()
	start := time.Now()
	err = release()
	back := returned(ctx, wait.Wait)
	mu.Lock()
	defer mu.Unlock()
	run.total, run.stuck = end.Sub(start), !back || context.Cause(ctx) == errGaveUp
	if run.stuck {
		// What the waiters that are still out will append is not ours.
		return lineRun{order: slices.Clone(run.order), stuck: true}, nil
	}
	if err == nil {
		err = first
	}
	return run, err
}

func runLine(ctx context.Context, b *bench, who []contender) (*lineResult, error) {
	t, err := b.takeTurns(ctx, who, b.size.waiters+1)
	if err != nil {
		return nil, err
	}
	defer t.close()
	r := &lineResult{t, map[string][]lineRun{}}
	return r, t.each(b.size.lines+1, func(round, i int) error {
		name, cl := t.names[i], t.clients[i]
		limit, cancel := limited(ctx, b.giveUp)
		defer cancel()
		run, err := measureLine(limit, cl[0], cl[1:], b.size.gap, "bench:line")
		if err != nil {
			return err
		}
		if round > 0 || run.stuck { // the first one opens what is needed for waiting
			r.runs[name] = append(r.runs[name], run)
		}
		if run.stuck {
			return errGaveUp
		}
		return nil
	})
}

// summary returns the medians of the rounds that all finished, and the inversions of all of them
// together.
func (r *lineResult) summary(name string) (total time.Duration, inverted, finished int) {
	var totals []time.Duration
	for _, run := range r.runs[name] {
		if run.stuck {
			continue
		}
		totals = append(totals, run.total)
		inverted += inversions(run.order)
	}
	return median(totals), inverted, len(totals)
}

func (r *lineResult) report(b *bench) *table {
	n := b.size.waiters
	t := &table{
		title: fmt.Sprintf("line: %d waiters with a client each, arriving %v apart at a held lock, each holds it for %v", n,
			b.size.gap, lineHold),
		method: fmt.Sprintf("%d rounds, interleaved; total is from the first release to the last; inversions are of all rounds (at most %d each)",
			b.size.lines, n*(n-1)/2),
		header: []string{"", "total, median", "÷ fenlock", "inversions"},
	}
	ours, _, _ := r.summary("fenlock")
	for _, name := range r.names {
		total, inverted, finished := r.summary(name)
		if finished > 0 {
			t.row(name, millis(total), ratio(total, ours), fmt.Sprintf("%d in %d rounds", inverted, finished))
		} else {
			t.row(name, "-", "-", "-")
		}
		for _, run := range r.runs[name] {
			if run.stuck {
				t.note("%s: hung in a round: after %v, %d of %d waiters had had the lock; left out from then on", name, b.giveUp,
					len(run.order), n)
			}
		}
	}
	return t
}
