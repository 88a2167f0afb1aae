package clock

import (
	"testing"
	"time"
)

func TestNowNeverGoesBack(t *testing.T) {
	last := Now()
	for range 10_000 {
		now := Now()
		if now < last {
			t.Fatalf("the clock went back from %v to %v", last, now)
		}
		last = now
	}
}

func TestNowAdvances(t *testing.T) {
	start := Now()
	time.Sleep(5 * time.Millisecond)
	// A sleep never ends early on this clock: it is at least the monotonic one.
	if elapsed := Now() - start; elapsed < 5*time.Millisecond {
		t.Errorf("after a sleep of 5ms the clock shows %v", elapsed)
	}
}
