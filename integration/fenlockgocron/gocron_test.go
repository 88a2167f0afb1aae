package fenlockgocron_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/integration/fenlockgocron"
	"github.com/fenlock/fenlock/node/memnode"
)

// host returns a process of its own on the nodes. A crash of the node ends what it holds.
func host(t *testing.T, label string, nodes ...*memnode.Node) *fenlock.Locker {
	t.Helper()
	config := fenlock.Config{Label: label}
	for _, n := range nodes {
		config.Nodes = append(config.Nodes, n.Share())
	}
	l, err := fenlock.New(config)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scheduler(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	must(t, err)
	t.Cleanup(func() { s.Shutdown() })
	return s
}

// every has a job run each minute, on a host whose clock is late by so much.
func every(t *testing.T, s gocron.Scheduler, late time.Duration, work any, opts ...gocron.JobOption) {
	t.Helper()
	opts = append([]gocron.JobOption{gocron.WithName("report"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Minute + late)))}, opts...)
	if _, err := s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(work), opts...); err != nil {
		t.Fatal(err)
	}
	s.Start()
}

func locker(t *testing.T, l fenlockgocron.Locks) *fenlockgocron.Locker {
	t.Helper()
	locks, err := fenlockgocron.NewLocker(l, 5*time.Second)
	must(t, err)
	return locks
}

// runs are those of jobs, on any host.
type runs struct {
	mu     sync.Mutex
	tokens []fence.Token
	errs   []error
}

func (r *runs) run(_ context.Context, token fence.Token) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, token)
	return nil
}

func (r *runs) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// seen returns the tokens of what ran, and the errors of what did not, or failed.
func (r *runs) seen() ([]fence.Token, []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tokens), slices.Clone(r.errs)
}

// listen has the errors of runs that failed, or were skipped.
func (r *runs) listen() gocron.JobOption {
	hear := func(_ uuid.UUID, _ string, err error) { r.failed(err) }
	return gocron.WithEventListeners(gocron.AfterLockError(hear), gocron.AfterJobRunsWithError(hear))
}

// pass lets time pass, and what happens meanwhile be over.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The job takes no time, and the other host's clock is a second late: without the minimum hold
// both would run it.
func TestOneRunOnHostsWhoseClocksDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var r runs
		for i, label := range []string{"a", "b", "c"} {
			locks := locker(t, host(t, label, node))
			s := scheduler(t, gocron.WithDistributedLocker(locks))
			every(t, s, time.Duration(i)*time.Second, locks.Work("report", r.run), r.listen())
		}
		pass(10*time.Minute + 30*time.Second)
		if len(r.tokens) != 10 || !slices.IsSorted(r.tokens) || len(slices.Compact(r.tokens)) != 10 {
			t.Errorf("ten minutes, and the runs %v", r.tokens)
		}
		if len(r.errs) != 20 {
			t.Errorf("%d runs were skipped", len(r.errs))
		}
		for _, err := range r.errs {
			if !errors.Is(err, fenlock.ErrHeld) {
				t.Error(err)
			}
		}
	})
}

func TestJobHearsOfTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		locks := locker(t, host(t, "a", node))
		var r runs
		var cause error
		every(t, scheduler(t, gocron.WithDistributedLocker(locks)), 0,
			locks.Work("report", func(ctx context.Context, _ fence.Token) error {
				node.Crash()
				select {
				case <-ctx.Done():
					cause = context.Cause(ctx)
				case <-time.After(20 * time.Second): // before the test ends: gocron's Shutdown keeps the bubble's time from passing
				}
				return nil
			}), r.listen())
		pass(time.Minute + 30*time.Second)
		if !errors.Is(cause, fenlock.ErrLost) {
			t.Errorf("the job's context: %v", cause)
		}
		if len(r.errs) != 1 || !errors.Is(r.errs[0], fenlock.ErrLost) {
			t.Errorf("gocron heard %v", r.errs)
		}
	})
}

// What is lost before the work begins does not begin.
func TestLostBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		locks := locker(t, host(t, "a", node))
		var r runs
		hear := func(_ uuid.UUID, _ string, err error) { r.failed(err) }
		every(t, scheduler(t, gocron.WithDistributedLocker(locks)), 0, locks.Work("report", r.run), gocron.WithEventListeners(
			gocron.BeforeJobRuns(func(uuid.UUID, string) {
				node.Crash()
				time.Sleep(20 * time.Second)
			}), gocron.AfterJobRunsWithError(hear)))
		pass(time.Minute + 30*time.Second)
		if tokens, errs := r.seen(); len(tokens) != 0 || len(errs) != 1 || !errors.Is(errs[0], fenlock.ErrLost) {
			t.Errorf("the runs %v, %v", tokens, errs)
		}
	})
}

// Of two jobs of one name in a process, each has its own lock. The first job's was lost before its
// work began, and the second has begun.
func TestTwoJobsOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		locks := locker(t, host(t, "a", node))
		var r runs
		work := locks.Work("report", r.run)
		first, end := context.WithCancel(t.Context()) // as gocron has one for each job
		defer end()
		second, end := context.WithCancel(t.Context())
		defer end()
		lost, err := locks.Lock(first, "report")
		must(t, err)
		node.Crash()
		pass(20 * time.Second)
		node.Restart()
		pass(fenlock.DefaultMaxTTL + time.Second)
		held, err := locks.Lock(second, "report")
		must(t, err)
		if err := work(first); !errors.Is(err, fenlock.ErrLost) || len(r.tokens) != 0 {
			t.Errorf("the first: %v, %v", err, r.tokens)
		}
		lost.Unlock(first)
		if err := work(second); err != nil || len(r.tokens) != 1 {
			t.Errorf("the second: %v, %v", err, r.tokens)
		}
		if err := work(second); !errors.Is(err, fenlockgocron.ErrNotHeld) {
			t.Errorf("the second once more: %v", err)
		}
		for _, want := range []error{nil, fenlock.ErrReleased} {
			if err := held.Unlock(second); !errors.Is(err, want) {
				t.Errorf("unlocked: %v, want %v", err, want)
			}
		}
		if err := work(t.Context()); !errors.Is(err, fenlockgocron.ErrNotHeld) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Unlock waits until the lock is free, also after a shutdown, which ends its context.
func TestUnlockAfterShutdown(t *testing.T) {
	locks := locker(t, host(t, "a", memnode.New("n")))
	ended, end := context.WithCancel(t.Context())
	end()
	for i := range 50 {
		lock, err := locks.Lock(t.Context(), fmt.Sprint("report ", i))
		must(t, err)
		must(t, lock.Unlock(ended))
	}
}

func TestShutdownReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		locks := locker(t, host(t, "a", node))
		s := scheduler(t, gocron.WithDistributedLocker(locks), gocron.WithStopTimeout(time.Hour))
		var r runs
		every(t, s, 0, locks.Work("report", func(ctx context.Context, _ fence.Token) error {
			<-ctx.Done()
			return ctx.Err()
		}), r.listen())
		pass(time.Minute + 20*time.Second)
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if len(r.errs) != 1 || !errors.Is(r.errs[0], context.Canceled) {
			t.Errorf("gocron heard %v", r.errs)
		}
		if _, err := host(t, "b", node).TryAcquire(t.Context(), "report"); err != nil {
			t.Errorf("after the shutdown: %v", err)
		}
	})
}

// A job that panics keeps its lock for the minimum hold, and no longer; nor does it keep an Elector
// from resigning.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		locks := locker(t, host(t, "a", node))
		elector, err := fenlockgocron.NewElector(host(t, "a", node), "scheduler")
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- elector.Run(ctx) }()
		synctest.Wait()
		panics := func(context.Context, fence.Token) error { panic("a job") }
		var recovered atomic.Int32
		listen := gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(func(uuid.UUID, string, any) { recovered.Add(1) }))
		every(t, scheduler(t, gocron.WithDistributedLocker(locks)), 0, locks.Work("report", panics), listen)
		every(t, scheduler(t, gocron.WithDistributedElector(elector)), time.Second, elector.Work(panics), listen)
		pass(time.Minute + 4*time.Second)
		other := host(t, "b", node)
		if _, err := other.TryAcquire(t.Context(), "report"); !errors.Is(err, fenlock.ErrHeld) || recovered.Load() != 2 {
			t.Errorf("%d panics, %v", recovered.Load(), err)
		}
		pass(2 * time.Second)
		if _, err := other.TryAcquire(t.Context(), "report"); err != nil {
			t.Errorf("after the minimum hold: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWorkWithoutItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, host(t, "a", memnode.New("n")))
		var r runs
		every(t, scheduler(t, gocron.WithDistributedLocker(locks)), 0, locks.Work("another", r.run), r.listen())
		every(t, scheduler(t), 15*time.Second, locks.Work("report", r.run), r.listen())
		every(t, scheduler(t, gocron.WithDistributedLocker(locks)), 30*time.Second, locks.Work("report", nil), r.listen())
		pass(time.Minute + 40*time.Second)
		if len(r.tokens) != 0 || len(r.errs) != 3 {
			t.Fatalf("the runs %v, %v", r.tokens, r.errs)
		}
		for i, want := range []error{fenlockgocron.ErrNotHeld, fenlockgocron.ErrNotHeld, fenlock.ErrInvalid} {
			if !errors.Is(r.errs[i], want) {
				t.Errorf("%v, not %v", r.errs[i], want)
			}
		}
	})
}

func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var on [2]runs
		var stop [2]context.CancelFunc
		for i, label := range []string{"a", "b"} {
			elector, err := fenlockgocron.NewElector(host(t, label, node), "scheduler")
			must(t, err)
			if err := elector.IsLeader(t.Context()); !errors.Is(err, fenlockgocron.ErrNotLeader) {
				t.Errorf("before it runs: %v", err)
			}
			var ctx context.Context
			ctx, stop[i] = context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- elector.Run(ctx) }()
			t.Cleanup(func() { stop[i](); <-ended })
			synctest.Wait()
			if err := elector.Run(ctx); !errors.Is(err, fenlock.ErrInvalid) {
				t.Errorf("it runs already: %v", err)
			}
			s := scheduler(t, gocron.WithDistributedElector(elector))
			every(t, s, time.Duration(i)*time.Second, elector.Work(func(ctx context.Context, term fence.Token) error {
				on[i].run(ctx, term)
				if tokens, _ := on[0].seen(); i == 0 && len(tokens) == 3 {
					<-ctx.Done()
					time.Sleep(20 * time.Second) // no other host leads meanwhile
					return ctx.Err()
				}
				return nil
			}), on[i].listen())
		}
		pass(3*time.Minute + 50*time.Second)
		first, _ := on[0].seen()
		second, _ := on[1].seen()
		if len(first) != 3 || len(second) != 0 {
			t.Errorf("three minutes: %v and %v", first, second)
		}
		stop[0]()
		pass(15 * time.Second) // the others are due
		if second, _ = on[1].seen(); len(second) != 0 {
			t.Errorf("it leads while a job of the other goes on: %v", second)
		}
		pass(time.Minute)
		first, _ = on[0].seen()
		second, _ = on[1].seen()
		if len(first) != 3 || len(second) != 1 || second[0] <= first[0] {
			t.Errorf("after the change: %v and %v", first, second)
		}
	})
}

// A leader that has lost the lead does not begin a job, and what runs hears of it.
func TestLeadIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		elector, err := fenlockgocron.NewElector(host(t, "a", node), "scheduler")
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- elector.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
		var r runs
		every(t, scheduler(t, gocron.WithDistributedElector(elector)), 0,
			elector.Work(func(ctx context.Context, term fence.Token) error {
				r.run(ctx, term)
				node.Crash()
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Second):
				}
				return nil
			}), r.listen())
		pass(3*time.Minute - time.Second)
		if len(r.tokens) != 1 || len(r.errs) != 1 || !errors.Is(r.errs[0], fenlock.ErrLost) {
			t.Errorf("the runs %v, %v", r.tokens, r.errs)
		}
		if err := elector.IsLeader(t.Context()); !errors.Is(err, fenlockgocron.ErrNotLeader) {
			t.Errorf("IsLeader: %v", err)
		}
	})
}

// What would have every run skipped is told at once.
func TestInvalid(t *testing.T) {
	l := host(t, "a", memnode.New("n"))
	var none *fenlock.Locker
	for what, f := range map[string]func() error{
		"nil":            func() error { _, err := fenlockgocron.NewLocker(nil, time.Second); return err },
		"a nil Locker":   func() error { _, err := fenlockgocron.NewLocker(none, time.Second); return err },
		"a nil Groups":   func() error { _, err := fenlockgocron.NewElector((*groups.Groups)(nil), "a"); return err },
		"no name":        func() error { _, err := fenlockgocron.NewElector(l, ""); return err },
		"no hold":        func() error { _, err := fenlockgocron.NewLocker(l, 0); return err },
		"over MaxTTL":    func() error { _, err := fenlockgocron.NewLocker(l, time.Minute); return err },
		"a nil option":   func() error { _, err := fenlockgocron.NewElector(l, "a", nil); return err },
		"a zero Elector": func() error { return new(fenlockgocron.Elector).Run(t.Context()) },
	} {
		if err := f(); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := new(fenlockgocron.Elector).IsLeader(t.Context()); !errors.Is(err, fenlockgocron.ErrNotLeader) {
		t.Errorf("a zero Elector leads: %v", err)
	}
}
