package fenlockcron_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/groups"
	"github.com/fenlock/fenlock/integration/fenlockcron"
	"github.com/fenlock/fenlock/node/memnode"
)

// host returns a process of its own on the node.
func host(t *testing.T, label string, node *memnode.Node) *fenlock.Locker {
	t.Helper()
	l, err := fenlock.New(fenlock.Config{Nodes: []fenlock.Node{node.Share()}, Label: label})
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

func jobs(t *testing.T, l fenlockcron.Locks, logger cron.Logger) *fenlockcron.Jobs {
	t.Helper()
	j, err := fenlockcron.New(t.Context(), l, 5*time.Second, logger)
	must(t, err)
	return j
}

func job(t *testing.T, j *fenlockcron.Jobs, work func(context.Context, fence.Token) error) cron.Job {
	t.Helper()
	made, err := j.Job("report", work)
	must(t, err)
	return made
}

// start runs a job each minute, on a host whose clock is late by so much.
func start(t *testing.T, job cron.Job, late time.Duration) *cron.Cron {
	t.Helper()
	c := cron.New(cron.WithLogger(cron.DiscardLogger))
	c.Schedule(minutely{time.Now().Add(late)}, job)
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	return c
}

// minutely is a schedule.
type minutely struct{ from time.Time }

func (m minutely) Next(now time.Time) time.Time {
	return m.from.Add((now.Sub(m.from).Truncate(time.Minute)) + time.Minute)
}

// journal is a cron.Logger. It has the errors of runs that failed, and of those that were skipped.
type journal struct {
	mu              sync.Mutex
	failed, skipped []error
}

func (l *journal) Info(_ string, pairs ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped = append(l.skipped, pairs[len(pairs)-1].(error))
}

func (l *journal) Error(err error, _ string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, err)
}

// pass lets time pass, and what happens meanwhile be over.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The job takes no time, and the other hosts' clocks are seconds late: without the minimum hold
// each would run it.
func TestOneRunOnHostsWhoseClocksDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var l journal
		var mu sync.Mutex
		var tokens []fence.Token
		for i, label := range []string{"a", "b", "c"} {
			start(t, job(t, jobs(t, host(t, label, node), &l), func(_ context.Context, token fence.Token) error {
				mu.Lock()
				defer mu.Unlock()
				tokens = append(tokens, token)
				return nil
			}), time.Duration(i)*time.Second)
		}
		pass(10*time.Minute + 30*time.Second)
		if len(tokens) != 10 || !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 10 {
			t.Errorf("ten minutes, and the runs %v", tokens)
		}
		if len(l.skipped) != 20 || len(l.failed) != 0 {
			t.Errorf("%d runs were skipped, %v failed", len(l.skipped), l.failed)
		}
	})
}

// A host that waited would do it again when the first has ended. The first is wrapped.
func TestHeldIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var l journal
		wrap, err := jobs(t, host(t, "a", node), &l).Wrapper("report")
		must(t, err)
		ran := 0
		start(t, cron.NewChain(cron.Recover(cron.DiscardLogger), wrap).Then(cron.FuncJob(func() {
			ran++
			time.Sleep(20 * time.Second)
			panic("it does not keep the lock")
		})), 0)
		again := false
		start(t, job(t, jobs(t, host(t, "b", node), &l), func(context.Context, fence.Token) error {
			again = true
			return nil
		}), 10*time.Second)
		pass(2*time.Minute + 50*time.Second)
		if ran != 2 || again || len(l.failed) != 0 {
			t.Errorf("it ran %d times, on the other host: %t; %v", ran, again, l.failed)
		}
		if len(l.skipped) != 2 || !errors.Is(l.skipped[0], fenlock.ErrHeld) ||
			!strings.Contains(l.skipped[0].Error(), "by a") {
			t.Errorf("the log: %v", l.skipped)
		}
	})
}

func TestJobHearsOfTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var l journal
		var cause error
		start(t, job(t, jobs(t, host(t, "a", node), &l), func(ctx context.Context, _ fence.Token) error {
			node.Crash()
			select {
			case <-ctx.Done():
				cause = context.Cause(ctx)
			case <-time.After(30 * time.Second):
			}
			return nil
		}), 0)
		pass(2*time.Minute + 10*time.Second)
		if !errors.Is(cause, fenlock.ErrLost) {
			t.Errorf("the job's context: %v", cause)
		}
		if len(l.failed) != 2 || !errors.Is(l.failed[0], fenlock.ErrLost) || !errors.Is(l.failed[1], fenlock.ErrNoQuorum) {
			t.Errorf("the log: %v", l.failed)
		}
	})
}

// The end of New's context is that of the jobs, and their locks are free then.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := memnode.New("n")
		var l journal
		ctx, end := context.WithCancel(t.Context())
		j, err := fenlockcron.New(ctx, host(t, "a", node), 5*time.Second, &l)
		must(t, err)
		c := start(t, job(t, j, func(ctx context.Context, _ fence.Token) error {
			<-ctx.Done()
			return ctx.Err()
		}), 0)
		pass(time.Minute + 20*time.Second)
		end()
		<-c.Stop().Done()
		if len(l.failed) != 1 || !errors.Is(l.failed[0], context.Canceled) {
			t.Errorf("the log: %v", l.failed)
		}
		if _, err := host(t, "b", node).TryAcquire(t.Context(), "report"); err != nil {
			t.Error(err)
		}
	})
}

// What would have every run skipped is told at once, and nothing that is nil ends the process.
func TestInvalid(t *testing.T) {
	l := host(t, "a", memnode.New("n"))
	var logged journal
	j := jobs(t, l, &logged)
	var none *fenlock.Locker
	var noContext context.Context
	work := func(context.Context, fence.Token) error { return nil }
	for what, f := range map[string]func() error{
		"no context":   func() error { _, err := fenlockcron.New(noContext, l, time.Second, nil); return err },
		"nil":          func() error { _, err := fenlockcron.New(t.Context(), nil, time.Second, nil); return err },
		"a nil Locker": func() error { _, err := fenlockcron.New(t.Context(), none, time.Second, nil); return err },
		"nil Groups": func() error {
			_, err := fenlockcron.New(t.Context(), (*groups.Groups)(nil), time.Second, nil)
			return err
		},
		"no hold":     func() error { _, err := fenlockcron.New(t.Context(), l, 0, nil); return err },
		"over MaxTTL": func() error { _, err := fenlockcron.New(t.Context(), l, time.Minute, nil); return err },
		"no name":     func() error { _, err := j.Job("", work); return err },
		"no work":     func() error { _, err := j.Job("a", nil); return err },
		"an unnamed":  func() error { _, err := j.Wrapper(""); return err },
	} {
		if err := f(); !errors.Is(err, fenlock.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := fenlockcron.New(t.Context(), l, time.Second, nil); err != nil {
		t.Errorf("without a logger: %v", err)
	}
	wrap, err := j.Wrapper("a")
	must(t, err)
	wrap(nil).Run()
	if len(logged.failed) != 1 || !errors.Is(logged.failed[0], fenlock.ErrInvalid) {
		t.Errorf("a nil job: %v", logged.failed)
	}
}
