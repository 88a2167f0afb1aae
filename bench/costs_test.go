package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

func TestLoadCountsCycles(t *testing.T) {
	t.Parallel()
	lock, calls := &fakeLock{}, 0
	failing := func(every int) client {
		return library{lock: func(ctx context.Context, name string) (func() error, error) {
			if calls++; calls%every == 0 {
				return nil, errors.New("it failed")
			}
			return lock.acquire(ctx, name)
		}}
	}
	start := time.Now()
	run, err := measureLoad(t.Context(), failing(3), []string{"x"}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	// Each third call fails. The measurement lasted at most as long as the call.
	if run.failures != calls/3 || lock.acquired != calls-run.failures || run.hung != 0 {
		t.Errorf("%+v, and %d acquisitions in %d calls", run, lock.acquired, calls)
	}
	if least := float64(lock.acquired) / time.Since(start).Seconds(); run.rate < least ||
		run.rate > float64(lock.acquired)/0.05 {
		t.Errorf("%v cycles per second, want at least %v and at most %v", run.rate, least, float64(lock.acquired)/0.05)
	}
	if _, err := measureLoad(t.Context(), failing(1), []string{"x"}, time.Minute); err == nil {
		t.Error("no error of a lock that always fails")
	}
}

// A locker that hangs ends the measurement after all, and is told of.
func TestLoadOfALockThatHangs(t *testing.T) {
	t.Parallel()
	lock := library{lock: func(ctx context.Context, name string) (func() error, error) {
		if name == "bench:load:1" { // that is never free
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(time.Millisecond)
		return func() error { return nil }, nil
	}, end: func() {}}
	r, err := runThroughput(t.Context(),
		&bench{giveUp: time.Minute, started: make([]*testserver.Server, 1),
			size: size{loads: 1, load: 10 * time.Millisecond}},
		[]contender{{name: "fenlock", open: func(*bench) (client, error) { return lock, nil }}}, nil, setting{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	table := r.nodesTable(tiny(time.Minute))
	if r.hung["fenlock"] != 1 || len(r.rates["fenlock"][0]) != 1 ||
		!strings.Contains(strings.Join(table.notes, "\n"), "a locker hung") {
		t.Errorf("%+v, with the notes %q", r, table.notes)
	}
}

// A server that was behind does not count for what is asked in second round trips, and a waiter
// that returned early is told of.
func TestWhatFiguresSay(t *testing.T) {
	b := tiny(time.Minute)
	trips := &roundtripsResult{cycles: 10000, more: []int{-500, 11, 0}}
	if notes := strings.Join(trips.report(b).notes, "\n"); trips.once() != 0.9989 ||
		!strings.Contains(notes, "99.890 %") || !strings.Contains(notes, "server 1 was behind") {
		t.Errorf("%v, with the notes %q", trips.once(), notes)
	}
	idle := &idleResult{lockers: 3, waiters: 6, length: time.Second, early: 1}
	if notes := strings.Join(idle.report(b).notes, "\n"); !strings.Contains(notes, "1 waiters returned although") {
		t.Errorf("a waiter returned early: the notes are %q", notes)
	}
}

func TestCapacityIsALine(t *testing.T) {
	r := &capacityResult{points: []capacityPoint{{1, cost{client: 30}}, {3, cost{client: 77}}, {7, cost{client: 90}}}}
	if a, perNode := r.line(); a != 20 || perNode != 10 {
		t.Errorf("%v + %v for each node; want 20 + 10", a, perNode)
	}
	r.points = r.points[1:2]
	if a, perNode := r.line(); a != 0 || perNode != 25 {
		t.Errorf("one point: %v + %v for each node; want 0 + 25", a, perNode)
	}
}

// A share is a part of the mean of all, and of each kind the least counts.
func TestShares(t *testing.T) {
	counts := slices.Repeat([]int{12}, readers+writers)
	counts[3], counts[readers+1] = 8, 4 // and in the mean 11.4
	r := &readersResult{loopRun{counts: counts}}
	if reader, writer := r.shares(); reader != 8/11.4 || writer != 4/11.4 {
		t.Errorf("%v and %v", reader, writer)
	}
	if reader, writer := new(readersResult).shares(); reader != 0 || writer != 0 {
		t.Errorf("%v and %v of nothing", reader, writer)
	}
}

// A change of leader counts from the end of the old one's work; what fails, and who never
// leads, is an error.
func TestMeasureLeader(t *testing.T) {
	lead := func(_ context.Context, _, _ string, work func()) error { work(); return nil }
	broken := errors.New("broken")
	silent := candidate{lead: lead,
		follow: func(ctx context.Context, _ string, _ func(string)) error { <-ctx.Done(); return nil }}
	failing := candidate{lead: func(context.Context, string, string, func()) error { return broken }}
	if _, _, err := measureLeader(t.Context(), failing, silent, silent, "x"); !errors.Is(err, broken) {
		t.Errorf("an old leader that fails: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := measureLeader(soon, silent, silent, silent, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a follower that sees nobody: %v", err)
	}
}
