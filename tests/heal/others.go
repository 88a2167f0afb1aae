//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/node"
)

const (
	// besides is how many names of the traffic share a stripe with a lock that is held.
	besides = 25
	// atOnce is how many of them are acquired at a time: so many are enough for what
	// servers on one machine can do, and more would only wait.
	atOnce = 64
	// pace is how often the traffic catches up with the clock.
	pace = 2 * time.Millisecond
)

// neighbours returns names on the stripes of these, so many for each.
func neighbours(names []string, each int) (all []string) {
	missing := map[int]int{}
	for _, name := range names {
		missing[node.Stripe(name)] += each
	}
	for i := 0; len(all) < each*len(names); i++ {
		name := fmt.Sprintf("heal/other/%d", i)
		if stripe := node.Stripe(name); missing[stripe] > 0 {
			missing[stripe]--
			all = append(all, name)
		}
	}
	return all
}

// traffic acquires and releases other names, so many a second, until ctx ends. Each
// one moves the register of a stripe of the locks that are held.
func (s *scene) traffic(ctx context.Context, l *fenlock.Locker, perSecond int, acquired *atomic.Int64) {
	names := neighbours(s.held.names, besides)
	work := make(chan string)
	for range atOnce {
		s.others.Go(func() {
			for name := range work {
				lock, err := l.TryAcquire(ctx, name)
				if err != nil {
					continue // a majority was not there in time; the rate tells
				}
				acquired.Add(1)
				lock.Release(context.Background())
			}
		})
	}
	s.others.Go(func() {
		defer close(work)
		next := 0
		start := time.Now()
		sent := 0
		for sleep(ctx, pace) == nil {
			due := int(time.Since(start).Seconds() * float64(perSecond))
			for ; sent < due; sent++ {
				select {
				case work <- names[next%len(names)]:
					next++
				case <-ctx.Done():
					return
				default: // everybody is busy: what cannot be done now is left out
				}
			}
		}
	})
}

// waitFor waits in the queue of a lock until ctx ends. It is never its turn, unless the
// lock was lost; then it lets go, and waits again.
func (s *scene) waitFor(ctx context.Context, l *fenlock.Locker, i int) {
	s.others.Go(func() {
		for ctx.Err() == nil {
			lock, err := l.Acquire(ctx, s.held.names[i])
			s.took(ctx, i, lock, err)
		}
	})
}

// try tries to get a lock once in a TTL until ctx ends.
func (s *scene) try(ctx context.Context, l *fenlock.Locker, i int) {
	s.others.Go(func() {
		// Not all at the same time.
		wait := s.ttl * time.Duration(i) / time.Duration(len(s.held.names))
		for sleep(ctx, wait) == nil {
			lock, err := l.TryAcquire(ctx, s.held.names[i])
			s.took(ctx, i, lock, err)
			wait = s.ttl
		}
	})
}

// took looks at what came of an acquisition of a lock that is held, and lets go of it.
func (s *scene) took(ctx context.Context, i int, lock *fenlock.Lock, err error) {
	switch {
	case err == nil:
		if err := s.held.taken(i, lock); err != nil {
			s.problem(err)
		}
		lock.Release(context.Background())
	case ctx.Err() != nil, errors.Is(err, fenlock.ErrHeld), errors.Is(err, fenlock.ErrNoQuorum):
	default:
		s.problem(err)
	}
}
