package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// loop is many clients that take and release one lock as fast as they can.
type loopResult struct {
	*turns
	runs map[string]loopRun

	floorTurns  int
	floorLength time.Duration
}

// loopRun is one contender's.
type loopRun struct {
	counts   []int // acquisitions by client
	changes  int   // of holder
	failures int   // of acquire or release, other than by the end
	length   time.Duration
	longest  time.Duration // that passed without an acquisition
	stuck    bool          // a locker did not come back after the end
}

func (r loopRun) total() (n int) {
	for _, c := range r.counts {
		n += c
	}
	return n
}

// perSecond returns the rate of n in the run.
func (r loopRun) perSecond(n int) float64 { return float64(n) / r.length.Seconds() }

// least returns the least served client's part of the mean.
func (r loopRun) least() float64 {
	if r.total() == 0 {
		return 0
	}
	return float64(slices.Min(r.counts)*len(r.counts)) / float64(r.total())
}

// add adds a later run of the same clients.
func (r loopRun) add(later loopRun) loopRun {
	if r.counts == nil {
		return later
	}
	for i, n := range later.counts {
		r.counts[i] += n
	}
	r.changes += later.changes
	r.failures += later.failures
	r.length += later.length
	r.longest = max(r.longest, later.longest)
	r.stuck = later.stuck
	return r
}

func measureLoop(ctx context.Context, clients []client, name string, length time.Duration) loopRun {
	start := time.Now()
	ctx, cancel := limited(ctx, length)
	defer cancel()
	var (
		wait sync.WaitGroup
		mu   sync.Mutex // guards what follows
		run  = loopRun{counts: make([]int, len(clients))}
		last = -1
		idle = start // since the last acquisition
	)
	for i, c := range clients {
		wait.Go(func() {
			for ctx.Err() == nil {
				release, err := c.acquire(ctx, name)
				now, over := time.Now(), ctx.Err() != nil
				if err == nil {
					mu.Lock()
					if !over {
						run.counts[i]++
						run.longest = max(run.longest, now.Sub(idle))
						idle = now
						if last != i && last >= 0 {
							run.changes++
						}
						last = i
					}
					mu.Unlock()
					err = release()
				}
				if err != nil && !over && ctx.Err() == nil {
					mu.Lock()
					run.failures++
					mu.Unlock()
				}
			}
		})
	}
	<-ctx.Done()
	mu.Lock()
	run.length = time.Since(start)
	run.longest = max(run.longest, time.Since(idle))
	mu.Unlock()
	back := returned(ctx, wait.Wait)
	mu.Lock()
	defer mu.Unlock()
	run.stuck = !back
	run.counts = slices.Clone(run.counts) // those who are still out have the old one
	return run
}

// loopSlices is how often the contenders take turns.
const loopSlices = 4

func runLoop(ctx context.Context, b *bench, who []contender) (*loopResult, error) {
	t, err := b.takeTurns(ctx, who, b.size.clients)
	if err != nil {
		return nil, err
	}
	defer t.close()
	r := &loopResult{turns: t, runs: map[string]loopRun{}}
	return r, r.each(loopSlices, func(_, i int) error {
		run := measureLoop(ctx, r.clients[i], "bench:loop", b.size.loop/loopSlices)
		r.runs[r.names[i]] = r.runs[r.names[i]].add(run)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if run.stuck {
			return errGaveUp
		}
		if r.names[i] != "fenlock" { // the floor is in the same turns
			return nil
		}
		turns, took, err := measureFloorLoop(ctx, b, b.size.loop/loopSlices)
		r.floorTurns, r.floorLength = r.floorTurns+turns, r.floorLength+took
		return err
	})
}

func (r *loopResult) report(b *bench) *table {
	t := &table{
		title:  fmt.Sprintf("loop: %d clients acquire and release one lock in a tight loop", b.size.clients),
		method: fmt.Sprintf("%v each, in %d slices, interleaved", b.size.loop, loopSlices),
		header: []string{"", "acquired/s", "÷ fenlock", "holders/s", "÷ fenlock", "least ÷ mean", "longest gap", "failures"},
	}
	ours := r.runs["fenlock"]
	for _, name := range r.names {
		run := r.runs[name]
		t.row(name,
			fmt.Sprintf("%.0f", run.perSecond(run.total())), ratio(run.perSecond(run.total()), ours.perSecond(ours.total())),
			fmt.Sprintf("%.0f", run.perSecond(run.changes)), ratio(run.perSecond(run.changes), ours.perSecond(ours.changes)),
			fmt.Sprintf("%.2f", run.least()), millis(run.longest), fmt.Sprint(run.failures))
		if run.stuck {
			t.note("%s: a locker was still in acquire or release %v after a slice; left out from then on", name, grace)
		}
	}
	t.note(
		"holders/s: how often the lock went from one client to another; longest gap: without any acquisition, in a slice")
	if r.floorLength > 0 {
		floor := float64(r.floorTurns) / r.floorLength.Seconds()
		t.note("the floor, clients that hand one lock on in an order that is known beforehand, by a script that writes a lease and publishes, and ask for it again, on raw sockets: %.0f per second, %s of fenlock's", floor, ratio(floor, ours.perSecond(ours.total())))
	}
	return t
}
