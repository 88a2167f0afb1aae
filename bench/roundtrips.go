package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// roundtrips is how often an acquisition without contention needs no second round trip. It is
// counted, by the servers, not timed.
type roundtripsResult struct {
	cycles, lockers, names int

	// more is, by server, how often a lease was read beyond the once of each release: by confirms.
	// Scripts do not count, of which one may acquire several names. A confirm goes to all servers
	// that may have the lease.
	more []int
}

func runRoundtrips(ctx context.Context, b *bench, _ []contender) (*roundtripsResult, error) {
	clients, err := openAll(ctx, b, fenlocks, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	r := &roundtripsResult{lockers: b.size.crowd, names: b.size.tripNames}
	before := snapshot(b.servers)
	// Each locker has its own part of the names, so no two of them meet.
	var cycles atomic.Int64
	err = inParallel(r.lockers, func(i int) error {
		for name := i; cycles.Add(1) <= int64(b.size.trips); name += r.lockers {
			if name >= r.names {
				name = i
			}
			if _, err := measureCycle(ctx, clients[0], fmt.Sprint("bench:roundtrips:", name), 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.cycles = b.size.trips
	r.more, err = r.count(ctx, b, before)
	return r, err
}

// count waits until the servers have been asked everything, and returns what is
// more. A release returns when a majority is free of the lease, so a server that is
// behind still has some to come; a request that it was too late for never comes.
func (r *roundtripsResult) count(ctx context.Context, b *bench, before []calls) (more []int, err error) {
	for range 25 {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
		after := snapshot(b.servers)
		more = nil
		for i := range b.servers {
			more = append(more, after[i]["get"]-before[i]["get"]-r.cycles)
		}
		if slices.Min(more) >= 0 {
			return more, nil
		}
	}
	if slices.Max(more) < 0 {
		return nil, fmt.Errorf(
			"all servers have read less than one lease per cycle: what they count is not what is meant here: %v", more)
	}
	return more, nil
}

// once returns the part of the acquisitions that took one round trip, at the least. A second
// confirm of the same acquisition counts as if it were of another one. The server that was asked
// most often counts, since confirms go to all of them.
func (r *roundtripsResult) once() float64 {
	return 1 - float64(min(slices.Max(r.more), r.cycles))/float64(r.cycles)
}

func (r *roundtripsResult) report(b *bench) *table {
	t := &table{
		title: fmt.Sprintf("roundtrips: %d lockers of one process, %d names, each for one locker at a time (fenlock only)",
			r.lockers, r.names),
		method: fmt.Sprintf("counted, not timed: how often each server has read a lease in %d acquisitions and releases; what is more than once per cycle are confirms, and each is a second round trip",
			r.cycles),
		header: []string{"server", "leases read per cycle", "confirms", "of the acquisitions"},
	}
	for i, n := range r.more {
		if n < 0 {
			t.note("server %d was behind, and was not asked at least %d times; the others tell how many confirms there were",
				i+1, -n)
		}
		t.row(fmt.Sprint(i+1), fmt.Sprintf("%.4f", 1+float64(n)/float64(r.cycles)), fmt.Sprint(max(n, 0)),
			fmt.Sprintf("%.3f %%", 100*float64(max(n, 0))/float64(r.cycles)))
	}
	t.note("%.3f %% of the acquisitions took one round trip", 100*r.once())
	return t
}
