package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// Outside of a bubble it is the clock that counts suspended time.
func TestForTimersIsNow(t *testing.T) {
	timers := ForTimers()
	for range 1000 {
		before := Now()
		got := timers()
		after := Now()
		if got < before || got > after {
			t.Fatalf("it shows %v, between %v and %v of Now", got, before, after)
		}
	}
}

// In a bubble it is the clock of time.Sleep, to the nanosecond.
func TestForTimersInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers := ForTimers()
		start := timers()
		for _, d := range []time.Duration{0, 1, time.Hour, 300 * time.Hour} {
			before := timers()
			time.Sleep(d)
			if got := timers() - before; got != d {
				t.Errorf("after a sleep of %v it has gone on by %v", d, got)
			}
		}
		// Two that are asked for at different times agree on how long something took.
		other := ForTimers()
		a, b := timers(), other()
		time.Sleep(time.Minute)
		if timers()-a != time.Minute || other()-b != time.Minute {
			t.Errorf("in a minute one went on by %v, another by %v", timers()-a, other()-b)
		}
		if timers()-start != 301*time.Hour+time.Minute+1 {
			t.Errorf("in all it has gone on by %v", timers()-start)
		}
	})
	TestForTimersIsNow(t) // after a bubble, no trace of it
}
