package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

// The figures of other kinds of locks, on real servers.
func TestKinds(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	b := tiny(20 * time.Second)
	b.kind = testserver.Kinds(t)[0]
	b.ttl = 2 * time.Second
	if err := start(ctx, t, b); err != nil {
		t.Fatal(err)
	}
	t.Run("kinds", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runKinds, kindsOfLocks, 2*len(kindsOfLocks))
		for _, c := range kindsOfLocks {
			near, far := r.results[0].samples[c.name], r.results[1].samples[c.name]
			if len(near) != b.size.rounds || slices.Min(near) <= 0 {
				t.Errorf("%s: %v, want %d positive times", c.name, near, b.size.rounds)
			}
			if len(far) != b.size.rounds || slices.Min(far) < 2*r.far { // to acquire, and to release
				t.Errorf("%s, far away: %v, want %d times of two round trips", c.name, far, b.size.rounds)
			}
		}
		// Five names are five leases.
		opened, err := openAll(ctx, b, severals, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(opened)
		release, err := opened[0].acquire(ctx, "bench:names")
		if err != nil {
			t.Fatal(err)
		}
		exist := []string{"EXISTS"}
		for _, name := range severalNames("bench:names") {
			exist = append(exist, valkeynode.DefaultPrefix+name)
		}
		// A server that the majority did not need may be behind.
		for b.servers[0].Do(exist...) != fmt.Sprint(atOnce) {
			if err := sleep(ctx, time.Millisecond); err != nil {
				t.Fatalf("not all %d names are leased", atOnce)
			}
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	t.Run("readers", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runReaders, b.present(readersWho), 1)
		run := r.runs["fenlock"]
		if len(run.counts) != readers+writers || run.total() == 0 || run.failures > 0 {
			t.Errorf("%+v", run)
		}
	})
	t.Run("leader", func(t *testing.T) {
		r, _ := measure(ctx, t, b, runLeader, b.present(leaderWho), 1)
		for i, seen := range r.seen["fenlock"] {
			if leads := r.leads["fenlock"][i]; leads <= 0 || seen <= 0 {
				t.Errorf("it led after %v, and that was seen after %v", leads, seen)
			}
		}
		if len(r.seen["fenlock"]) != b.size.changes {
			t.Errorf("%d changes were seen, of %d", len(r.seen["fenlock"]), b.size.changes)
		}
	})
}

// A share is a part of the mean of all, and of each kind the least counts.
func TestShares(t *testing.T) {
	counts := slices.Repeat([]int{12}, readers+writers)
	counts[3], counts[readers+1] = 8, 4 // and in the mean 11.4
	r := &readersResult{&loopResult{runs: map[string]loopRun{"x": {counts: counts}}}, readers + writers}
	if reader, writer := r.shares("x"); reader != 8/11.4 || writer != 4/11.4 {
		t.Errorf("%v and %v", reader, writer)
	}
	if reader, writer := r.shares("nobody"); reader != 0 || writer != 0 {
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
