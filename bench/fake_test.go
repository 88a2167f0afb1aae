package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeLock is a lock in memory whose waiters are served in a known order.
type fakeLock struct {
	newestFirst bool
	forgetful   bool // does not wake waiters
	unsafe      bool // grants at once, held or not

	mu       sync.Mutex
	held     bool
	queue    []chan struct{}
	acquired int
}

func (l *fakeLock) acquire(ctx context.Context, _ string) (func() error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held && !l.unsafe {
		turn := make(chan struct{})
		l.queue = append(l.queue, turn)
		l.mu.Unlock()
		select {
		case <-turn:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			i := slices.Index(l.queue, turn)
			if i >= 0 {
				l.queue = slices.Delete(l.queue, i, i+1)
				return nil, ctx.Err()
			}
		}
	}
	l.held = true
	l.acquired++
	return l.release, nil
}

func (l *fakeLock) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.forgetful {
		l.held = false
		return nil
	}
	next := 0
	if l.newestFirst {
		next = len(l.queue) - 1
	}
	close(l.queue[next]) // it is held on behalf of the next one
	l.queue = slices.Delete(l.queue, next, next+1)
	return nil
}

func (l *fakeLock) close() {}

func (l *fakeLock) contender(name string) contender {
	return contender{name: name, open: func(*bench) (client, error) { return l, nil }}
}

// tiny is enough to see that every number means something. Arrivals are further
// apart than a busy machine delays a goroutine.
func tiny(giveUp time.Duration) *bench {
	return &bench{ttl: time.Second, giveUp: giveUp, size: size{
		rounds: 3, cycles: 5, lines: 2, waiters: 5, gap: 40 * time.Millisecond, clients: 4, loop: 500 * time.Millisecond,
		lockers: 3, perLocker: 2, settle: 300 * time.Millisecond, idle: time.Second,
		loads: 2, load: 30 * time.Millisecond, crowds: []int{1, 64}, crowd: 4, nodes: []int{1, 6},
		trips: 60, tripNames: 10, held: 30, hold: 300 * time.Millisecond, names: 100,
		delay: 60 * time.Millisecond, slows: 2, slow: 2, networks: 2, network: 3, starts: 2, herds: []int{5}, herd: 4,
		stampedes: 2, changes: 3,
	}}
}

func TestLineCountsInversions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		lock *fakeLock
		want int // in each of two rounds
	}{
		{&fakeLock{}, 0},
		{&fakeLock{newestFirst: true}, 5 * 4 / 2},
	} {
		b := tiny(time.Minute)
		r, err := runLine(t.Context(), b, []contender{test.lock.contender("fenlock")})
		if err != nil {
			t.Fatal(err)
		}
		total, inverted, finished := r.summary("fenlock")
		if finished != 2 || inverted != 2*test.want {
			t.Errorf("newest first %v: %d inversions in %d rounds, want %d in 2", test.lock.newestFirst, inverted, finished,
				2*test.want)
		}
		if total < 5*lineHold {
			t.Errorf("five waiters held the lock for %v each, all of them for %v", lineHold, total)
		}
	}
}

// A contender that forgets its waiters is reported, and does not stop the others.
func TestAHungContenderIsLeftOut(t *testing.T) {
	t.Parallel()
	b := tiny(1500 * time.Millisecond)
	// No locker may be thought to hang because the machine is slow: fenlock's waiters come at once
	// here.
	b.size.gap = 0
	who := []contender{(&fakeLock{}).contender("fenlock"), (&fakeLock{forgetful: true}).contender("redsync")}
	line, err := runLine(t.Context(), b, who)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, finished := line.summary("redsync"); finished != 0 || len(line.runs["redsync"]) != 1 {
		t.Errorf("line: the one that hangs finished %d of %d rounds, want 0 of 1", finished, len(line.runs["redsync"]))
	}
	if notes := strings.Join(line.report(b).notes, "\n"); !strings.Contains(notes, "redsync: hung in a round") {
		t.Errorf("line: the one that hangs is not reported: %q", notes)
	}
	handover, err := runHandover(t.Context(), b, who)
	if err != nil {
		t.Fatal(err)
	}
	if !handover.gaveUp["redsync"] || len(handover.samples["redsync"]) != 0 {
		t.Errorf("handover: the one that hangs has samples: %v", handover.samples["redsync"])
	}
	if handover.gaveUp["fenlock"] || len(handover.samples["fenlock"]) != b.size.rounds {
		t.Errorf("handover: %d samples of the other one, want %d", len(handover.samples["fenlock"]), b.size.rounds)
	}
}

// One that hangs at its first use gets another client; one that hangs later is left
// out of cycle.
func TestAClientThatHangs(t *testing.T) {
	t.Parallel()
	b := tiny(200 * time.Millisecond)
	hung := func() *fakeLock { return &fakeLock{held: true} } // it is not released
	var clients []*fakeLock
	late := contender{name: "late", open: func(*bench) (client, error) {
		clients = append(clients, hung())
		if len(clients) == openTries {
			clients[openTries-1].held = false
		}
		return clients[len(clients)-1], nil
	}}
	if opened, err := openAll(t.Context(), b, late, 1); err != nil || len(opened) != 1 ||
		opened[0] != clients[openTries-1] {
		t.Errorf("%v, %v; want the client of try %d", opened, err, openTries)
	}
	never := contender{name: "never", open: func(*bench) (client, error) { return hung(), nil }}
	if _, err := openAll(t.Context(), b, never, 1); !errors.Is(err, errGaveUp) {
		t.Errorf("a client that always hangs: %v", err)
	}
	b.giveUp = time.Second
	fine, forgets := &fakeLock{}, &fakeLock{}
	// It stays held when it is used for more than a warm-up.
	leaky := library{lock: func(ctx context.Context, name string) (func() error, error) {
		release, err := forgets.acquire(ctx, name)
		if name == "bench:cycle" {
			return func() error { return nil }, err
		}
		return release, err
	}, end: func() {}}
	r, err := runCycle(t.Context(), b, []contender{
		fine.contender("fenlock"),
		{name: "forgets", open: func(*bench) (client, error) { return leaky, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.samples["fenlock"]) != b.size.rounds || len(r.samples["forgets"]) != 0 || !r.gaveUp["forgets"] ||
		r.gaveUp["fenlock"] {
		t.Errorf("%+v", r)
	}
	if notes := strings.Join(r.report(b).notes, "\n"); !strings.Contains(notes, "forgets: hung in round 1") {
		t.Errorf("the one that hangs is not reported: %q", notes)
	}
}

// A waiter that did not wait is no handover.
func TestHandoverRefusesALockThatIsNone(t *testing.T) {
	t.Parallel()
	_, err := runHandover(t.Context(), tiny(time.Minute), []contender{(&fakeLock{unsafe: true}).contender("fenlock")})
	if err == nil || !strings.Contains(err.Error(), "before it was released") {
		t.Errorf("a lock that does not exclude: %v", err)
	}
}

func TestLoopCountsEveryAcquisition(t *testing.T) {
	t.Parallel()
	lock := &fakeLock{}
	b := tiny(time.Minute)
	clients := []client{lock, lock, lock, lock}
	run := measureLoop(t.Context(), clients, "x", b.size.loop)
	// Each client may be granted the lock once after the end.
	if n := run.total(); n < lock.acquired-len(clients) || n > lock.acquired || n == 0 {
		t.Errorf("%d acquisitions counted, the lock was acquired %d times", n, lock.acquired)
	}
	if run.changes >= run.total() || run.changes == 0 {
		t.Errorf("%d changes of holder in %d acquisitions by %d clients", run.changes, run.total(), len(clients))
	}
	if run.failures != 0 || run.stuck || run.length < b.size.loop || run.longest > run.length {
		t.Errorf("failures %d, stuck %v, %v long, longest gap %v; want none, false, at least %v, at most the length",
			run.failures, run.stuck, run.length, run.longest, b.size.loop)
	}
}

func TestSlicesAddUp(t *testing.T) {
	var sum loopRun
	for range 2 {
		sum = sum.add(loopRun{counts: []int{1, 3}, changes: 3, failures: 4, length: time.Second, longest: time.Millisecond})
	}
	if !slices.Equal(sum.counts, []int{2, 6}) || sum.changes != 6 || sum.failures != 8 ||
		sum.length != 2*time.Second || sum.longest != time.Millisecond || sum.perSecond(sum.total()) != 4 {
		t.Errorf("%+v", sum)
	}
	if none := (loopRun{counts: []int{0, 0}}); sum.least() != 0.5 || none.least() != 0 {
		t.Errorf("least served of %v: %v; of nothing: %v", sum.counts, sum.least(), none.least())
	}
}
