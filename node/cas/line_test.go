package cas

import (
	"slices"
	"testing"
	"time"
)

// How often a listener asks. It asks often for a waiter that is next, seldom for one that is not,
// or has waited long. It never asks more than a statement a second for a thousand.
func TestPauses(t *testing.T) {
	l := line{changed: make(chan struct{}, 1)}
	if got := l.pause(); got != idlePause {
		t.Errorf("with nobody: %v", got)
	}
	for _, c := range []struct {
		ahead    int
		waited   time.Duration
		min, max time.Duration
	}{
		{0, 0, shortestPause, shortestPause}, {0, time.Second, 100 * time.Millisecond, 200 * time.Millisecond},
		{0, time.Minute, longestPause, longestPause},
		{1, time.Minute, longestPause, longestPause}, {2, time.Minute, idlePause, idlePause},
		{1000, 0, 2 * time.Second, idlePause}, {100, 0, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		l.waiters = nil
		l.waits("w", 7, c.ahead)
		l.waiters["w"].moved = time.Now().Add(-c.waited)
		if got := l.pause(); got < c.min || got > c.max {
			t.Errorf("%d ahead, for %v: %v", c.ahead, c.waited, got)
		}
	}
	l.waits("w", 7, 3)
	l.moved(8)
	l.moved(7)
	if l.waiters["w"].ahead != 2 || !slices.Equal(l.stripes(), []int{7}) {
		t.Errorf("%+v, %v", l.waiters["w"], l.stripes())
	}
	l.waiters["w"].asked = time.Now().Add(-time.Minute)
	if l.pause(); len(l.waiters) != 0 {
		t.Error("one that asks no more is still waited for")
	}
	l.waits("w", 7, 3)
	l.leaves("w")
	if got := l.stripes(); len(got) != 0 {
		t.Error(got)
	}
}
