package main

import (
	"context"
	"fmt"
	"slices"
)

// readers is how a name is divided between clients that share it and clients that want it alone.
// All take and release it as fast as they can.

// How many there are of each, in the proportion of 4 to 1.
const (
	readers = 16
	writers = 4
)

// readersResult has the readers first.
type readersResult struct{ loopRun }

func runReaders(ctx context.Context, b *bench, _ []contender) (*readersResult, error) {
	sharing, err := openAll(ctx, b, sharers, readers)
	if err != nil {
		return nil, err
	}
	defer closeAll(sharing)
	alone, err := openAll(ctx, b, fenlocks, writers)
	if err != nil {
		return nil, err
	}
	defer closeAll(alone)
	run := measureLoop(ctx, append(sharing, alone...), "bench:readers", b.size.loop)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &readersResult{run}, nil
}

// shares returns what part of its fair share each has, the least of the readers and the least of
// the writers. It is 1 if all are served as often.
func (r *readersResult) shares() (reader, writer float64) {
	if r.total() == 0 {
		return 0, 0
	}
	fair := float64(r.total()) / float64(len(r.counts))
	return float64(slices.Min(r.counts[:readers])) / fair, float64(slices.Min(r.counts[readers:])) / fair
}

func (r *readersResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("readers: %d readers and %d writers acquire and release one name in a tight loop (fenlock only)",
			readers, writers),
		method: fmt.Sprintf("%v long; a fair share is the mean of all acquisitions by client", b.size.loop),
		header: []string{"readers/s", "writers/s", "least reader ÷ fair", "least writer ÷ fair", "longest gap", "failures"},
	}
	n := [2]int{}
	for i, count := range r.counts {
		n[min(i/readers, 1)] += count
	}
	reader, writer := r.shares()
	t.row(fmt.Sprintf("%.0f", r.perSecond(n[0])), fmt.Sprintf("%.0f", r.perSecond(n[1])), fmt.Sprintf("%.2f", reader),
		fmt.Sprintf("%.2f", writer), millis(r.longest), fmt.Sprint(r.failures))
	if r.stuck {
		t.note("a locker was still in acquire or release %v after the end", grace)
	}
	return t
}
