//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/internal/testserver/proxy"
)

// setting is what all rows have in common.
type setting struct {
	kind  testserver.Kind
	locks int
	ttl   time.Duration
	peace time.Duration // for how long all servers vote before the next one goes
}

// scene is a row while it is run.
type scene struct {
	setting
	row     row
	ctx     context.Context
	outside *testserver.Outside
	servers []*testserver.Server
	proxies []*proxy.Proxy // before the servers, in this order, if the network matters
	held    *held
	others  sync.WaitGroup // everybody but the holders

	mu       sync.Mutex
	problems []string
}

// result is what came of a row.
type result struct {
	losses   []loss
	problems []string // what must not happen, whatever is lost
	lasted   time.Duration
	acquired float64 // a second, of other names
}

// rate is the column of the table.
func (r result) rate(of row) string {
	if of.traffic == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", r.acquired)
}

// run runs the row on servers of its own. It returns when they have ended.
func (r row) run(ctx context.Context, with setting) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &scene{setting: with, row: r, ctx: ctx, outside: &testserver.Outside{}, held: newHeld(with.locks)}
	defer s.outside.Close()
	defer s.others.Wait()
	defer cancel()
	if err := s.start(r.size()); err != nil {
		return result{}, err
	}
	if err := s.firstVotes(); err != nil {
		return result{}, err
	}
	begin := time.Now()
	acquired, err := s.play()
	if err != nil {
		return result{}, err
	}
	lasted := time.Since(begin)
	losses := s.held.lost()
	limited, enough := context.WithTimeout(ctx, patience)
	defer enough()
	if err := s.held.release(limited); err != nil {
		return result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return result{losses, s.problems, lasted, float64(acquired) / lasted.Seconds()}, nil
}

// firstVotes waits until all servers vote: new ones might have forgotten leases.
func (s *scene) firstVotes() error {
	l, err := s.locker("")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl+patience)
	defer cancel()
	lock, err := l.Acquire(ctx, "heal/first")
	if err != nil {
		return err
	}
	var all []int
	for i := range s.servers {
		all = append(all, i)
	}
	if err := s.awaitAdmitted(all...); err != nil { // the lock's extensions ask them
		return err
	}
	return lock.Release(ctx)
}

// play acquires the locks and lets the fault strike. It returns how many other locks
// were acquired meanwhile.
func (s *scene) play() (int64, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer s.others.Wait()
	defer cancel()
	var acquired atomic.Int64
	if s.row.traffic > 0 {
		l, err := s.locker("")
		if err != nil {
			return 0, err
		}
		s.traffic(ctx, l, s.row.traffic, &acquired)
	}
	if err := s.acquire(); err != nil {
		return 0, err
	}
	for k := range s.row.waiters { // a Locker each: within one of them, only one is in the queue
		l, err := s.locker(fmt.Sprint("waiter ", k+1))
		if err != nil {
			return 0, err
		}
		for i := range s.held.names {
			s.waitFor(ctx, l, i)
		}
	}
	if s.row.tries {
		l, err := s.locker("somebody")
		if err != nil {
			return 0, err
		}
		for i := range s.held.names {
			s.try(ctx, l, i)
		}
	}
	if err := s.wait("before the first fault", s.peace); err != nil {
		return 0, err
	}
	err := s.row.fault(s)
	return acquired.Load(), err
}

// acquire takes the locks, with what is wrong meanwhile.
func (s *scene) acquire() error {
	after := func() error { return nil }
	if s.row.before != nil {
		var err error
		if after, err = s.row.before(s); err != nil {
			return err
		}
	}
	l, err := s.locker("holder")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	if err := s.held.acquire(ctx, l, s.ttl/3); err != nil {
		return err
	}
	return after()
}

// phase says what happens from now on, for the losses.
func (s *scene) phase(what string) { s.held.phase(what) }

// wait lets something go on for a while.
func (s *scene) wait(what string, length time.Duration) error {
	s.phase(what)
	return sleep(s.ctx, length)
}

func (s *scene) problem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, err.Error())
}
