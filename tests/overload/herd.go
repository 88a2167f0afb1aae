//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/tests/faults/library"
)

// The kinds of herds: clients of which each has connections of its own, which it opens now, and
// wants what the others want.
const (
	herdAlone = "alone" // one name, each for a moment
	herdShare = "share" // one name, all of them at a time
	herdSlots = "slots" // one of five slots, each for a moment
	herdAll   = "all"   // five of ten names at a time, each for a moment
	herdTick  = "tick"  // one name by TryAcquire: one client has it, and the others are refused
)

var herds = []string{herdAlone, herdShare, herdSlots, herdAll, herdTick}

// moment is for how long a client of a herd holds what it has.
const moment = time.Millisecond

// crowd is what the clients of a herd hold. They are of one process, so that it is known what is
// held at the same time.
type crowd struct {
	mu    sync.Mutex
	held  map[string][]library.Lease
	wrong string
}

// with has a client hold names, each of which so many may hold at a time.
func (c *crowd) with(most int, leases []library.Lease, names []string, f func()) {
	c.mu.Lock()
	for i, name := range names {
		c.held[name] = append(c.held[name], leases[i])
		valid := 0
		for _, lease := range slices.Backward(c.held[name]) { // the newest first: the others were valid then
			if lease.Remaining() > 0 {
				valid++
			}
		}
		if valid > most {
			c.wrong = fmt.Sprintf("%d clients hold %s", valid, name)
		}
	}
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, name := range names {
		c.held[name] = slices.DeleteFunc(c.held[name], func(l library.Lease) bool { return l == leases[i] })
	}
}

// herd has all clients begin at once, and says how long it took until all were done.
func (t *task) herd(over context.Context, say func(status)) error {
	c := &crowd{held: map[string][]library.Lease{}}
	var done, failed atomic.Int64
	var why atomic.Value             // of the last that failed
	var clients, here sync.WaitGroup // here: clients that have an answer
	here.Add(t.Count)
	ctx, cancel := context.WithTimeout(over, t.Patience)
	defer cancel()
	lockers := make([]library.Locker, t.Count)
	for i := range lockers {
		var err error
		if lockers[i], err = open(t.Library, t.URLs, t.TTL, fmt.Sprint("client ", i)); err != nil {
			return err
		}
	}
	began := time.Now()
	for i, l := range lockers {
		clients.Go(func() {
			if err := t.member(ctx, c, i, l, &here); err != nil {
				failed.Add(1)
				why.Store(err.Error())
			} else {
				done.Add(1)
			}
		})
	}
	clients.Wait()
	s := status{Done: int(done.Load()), Failed: int(failed.Load()), Took: time.Since(began), Wrong: c.wrong}
	s.Why, _ = why.Load().(string)
	say(s)
	return nil
}

// member is one client of a herd.
func (t *task) member(ctx context.Context, c *crowd, i int, l library.Locker, here *sync.WaitGroup) error {
	most, names := 1, []string{t.Name}
	var leases []library.Lease
	var err error
	add := func(lease library.Lease, failed error) { leases, err = []library.Lease{lease}, failed }
	hold := func() { time.Sleep(moment) }
	together := func() {
		select {
		case <-wait(here):
		case <-ctx.Done():
		}
	}
	switch full, _ := l.(library.Full); t.Do {
	case herdAlone:
		add(l.Acquire(ctx, t.Name))
	case herdTick:
		add(l.TryAcquire(ctx, t.Name))
		here.Done()
		hold = together
	case herdShare:
		most, hold = t.Count, together
		add(full.AcquireShared(ctx, t.Name, true))
		here.Done()
	case herdSlots:
		take, wrong := full.Slots(t.Name, 5)
		if wrong != nil {
			return wrong
		}
		number, lease, failed := take(ctx, true)
		add(lease, failed)
		names = []string{fmt.Sprint(t.Name, "#", number)}
	case herdAll:
		names = nil
		for n := range 5 {
			names = append(names, fmt.Sprint(t.Name, (i+n)%10))
		}
		slices.Sort(names)
		var release func(context.Context) error
		if leases, release, err = full.AcquireAll(ctx, names); err == nil {
			c.with(1, leases, names, hold)
			release(context.Background()) // where it is not heard in time, the lock ends by itself
			return nil
		}
	}
	if err != nil {
		return err
	}
	c.with(most, leases, names, hold)
	leases[0].Release(context.Background())
	return nil
}

// wait returns what is closed when a group is done.
func wait(g *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	return done
}
