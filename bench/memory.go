package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// memory is what is left on the servers of names that were locked once.
type memoryResult struct {
	names         int
	length        time.Duration
	before, after []int // bytes in use, by server
}

func runMemory(ctx context.Context, b *bench, _ []contender) (*memoryResult, error) {
	clients, err := openAll(ctx, b, fenlocks, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	r := &memoryResult{names: b.size.names}
	if r.before, err = usedMemory(ctx, b); err != nil {
		return nil, err
	}
	start := time.Now()
	err = inParallel(r.names, func(i int) error {
		_, err := measureCycle(ctx, clients[0], fmt.Sprint("bench:memory:", i), 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.length = time.Since(start)
	r.after, err = usedMemory(ctx, b)
	return r, err
}

// A server gives buffers of connections back over some seconds, and resizes its
// tables in the background.
const (
	memoryReadings = 12
	memoryPause    = 250 * time.Millisecond
)

// usedMemory returns the least that each server uses within some seconds.
func usedMemory(ctx context.Context, b *bench) ([]int, error) {
	least := make([]int, len(b.servers))
	for reading := range memoryReadings {
		if err := sleep(ctx, memoryPause); err != nil {
			return nil, err
		}
		for i, s := range b.servers {
			n, err := strconv.Atoi(s.Info("memory", "used_memory"))
			if err != nil {
				return nil, fmt.Errorf("used_memory: %w", err)
			}
			if reading == 0 || n < least[i] {
				least[i] = n
			}
		}
	}
	return least, nil
}

func (r *memoryResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("memory: %d names locked and released once (fenlock only)", r.names),
		method: fmt.Sprintf("used_memory of each server before and after, the least of %d readings in %v; they took %v",
			memoryReadings, memoryReadings*memoryPause, r.length.Round(time.Millisecond)),
		header: []string{"server", "before", "after", "difference"},
	}
	for i := range r.before {
		t.row(fmt.Sprint(i+1), kibibytes(r.before[i]), kibibytes(r.after[i]), kibibytes(r.after[i]-r.before[i]))
	}
	return t
}

func kibibytes(n int) string { return fmt.Sprintf("%.0f KiB", float64(n)/1024) }
