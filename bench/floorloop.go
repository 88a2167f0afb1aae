package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// measureFloorLoop is what clients that hand one lock on in a tight loop cost at least, if each has
// to have it in turn. It is the floor's handover. After it the client that had the lock asks for it
// again, as one that comes to the end of a queue. It is no lock: the order is known beforehand, and
// no client that asks is answered by what there is. The first client's first turn is not told.
func measureFloorLoop(ctx context.Context, b *bench, length time.Duration) (turns int, took time.Duration, err error) {
	n := b.size.clients
	var channels []string
	for range n {
		channels = append(channels, floorChannel())
	}
	var clients []*floorTurns
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for i := range n {
		f, err := openFloorHandover(b, channels[i], channels[(i+1)%n])
		if err != nil {
			return 0, 0, err
		}
		clients = append(clients, newFloorTurns(f, b, i))
	}
	start := time.Now()
	ctx, cancel := limited(ctx, length)
	defer cancel()
	failed := make(chan error, n)
	var wait sync.WaitGroup
	for i, c := range clients {
		wait.Go(func() {
			if err := c.run(ctx, i == 0); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	wait.Wait()
	took = time.Since(start)
	for _, c := range clients {
		turns += c.count
	}
	select {
	case err = <-failed:
	default:
	}
	return turns, took, err
}

// floorTurns is one client of that loop.
type floorTurns struct {
	*floorHandover
	enqueue []byte
	told    []int // turns, by server
	count   int
}

// floorEnqueue is the least that a server does about who comes to a lock that is held.
const floorEnqueue = `return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])`

func newFloorTurns(f *floorHandover, b *bench, number int) *floorTurns {
	var sha string
	for _, s := range b.servers {
		sha = fmt.Sprint(s.Do("SCRIPT", "LOAD", floorEnqueue))
	}
	return &floorTurns{
		floorHandover: f,
		enqueue: encode("EVALSHA", sha, "1", "floor:queue", fmt.Sprint(time.Now().UnixMicro()),
			fmt.Sprintf("%032d:%d", number, number)),
		told: make([]int, len(f.conns)),
	}
}

// run takes turns until ctx is done.
func (f *floorTurns) run(ctx context.Context, first bool) error {
	for turn := 1; ; turn++ {
		if first {
			first, turn = false, 0
		} else if more, err := f.await(ctx, turn); !more {
			return err
		}
		f.count++
		if err := f.pipeline.do(f.call, f.release); err != nil {
			return err
		}
		if err := f.pipeline.do(f.call, f.enqueue); err != nil {
			return err
		}
	}
}

// await returns when a majority has told this turn, false if ctx has ended before.
func (f *floorTurns) await(ctx context.Context, turn int) (bool, error) {
	for {
		enough := 0
		for _, n := range f.told {
			if n >= turn {
				enough++
			}
		}
		if enough >= majority(len(f.told)) {
			return ctx.Err() == nil, nil
		}
		select {
		case t := <-f.heard:
			if t.err != nil {
				return false, t.err
			}
			f.told[t.server]++
		case <-ctx.Done():
			return false, nil
		}
	}
}
