package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// idle is what many waiters cost while nothing happens.
type idleResult struct {
	lockers, waiters int
	length           time.Duration
	cpu              time.Duration
	early            int // waiters that returned, though the lock was not released
}

func runIdle(ctx context.Context, b *bench, _ []contender) (*idleResult, error) {
	r := &idleResult{lockers: b.size.lockers, waiters: b.size.lockers * b.size.perLocker}
	clients, err := openAll(ctx, b, fenlocks, r.lockers+1)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	holder, waiters := clients[0], clients[1:]
	const name = "bench:idle"
	release, err := holder.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	var early atomic.Int64
	for _, c := range waiters {
		for range b.size.perLocker {
			wait.Go(func() {
				release, err := c.acquire(waiting, name)
				if waiting.Err() == nil {
					early.Add(1)
				}
				if err == nil {
					release()
				}
			})
		}
	}
	if err := sleep(ctx, b.size.settle); err != nil {
		return nil, err
	}
	start, cpu := time.Now(), cpuTime()
	if err := sleep(ctx, b.size.idle); err != nil {
		return nil, err
	}
	r.length, r.cpu = time.Since(start), cpuTime()-cpu
	r.early = int(early.Load())
	if err := release(); err != nil && r.early == 0 {
		return nil, fmt.Errorf("idle: %w", err)
	}
	cancel()
	wait.Wait()
	return r, nil
}

func (r *idleResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("idle: %d waiters on one held lock, in %d clients (fenlock only)", r.waiters, r.lockers),
		method: fmt.Sprintf("%v long, %v after they came; getrusage of this process", r.length.Round(time.Millisecond),
			b.size.settle),
		header: []string{"waiters", "CPU of all clients, in cores"},
	}
	t.row(fmt.Sprint(r.waiters), fmt.Sprintf("%.3f", r.cpu.Seconds()/r.length.Seconds()))
	if r.early > 0 {
		t.note("%d waiters returned although the lock was not released: its holder has lost it, or they failed; the figures are of fewer waiters", r.early)
	}
	return t
}
