package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// A clock that went on while a bubble's timers jump ahead would have a lock held long
// after its lease.
func TestForTimersGoesByTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := clock.ForTimers()
		start := now()
		time.Sleep(300 * time.Hour)
		if passed := now() - start; passed != 300*time.Hour {
			t.Errorf("%v passed in a sleep of 300 h", passed)
		}
	})
}

// Outside of a bubble the time counts during which the machine is suspended.
func TestForTimersGoesByTheMachine(t *testing.T) {
	before := clock.Now()
	now := clock.ForTimers()()
	if after := clock.Now(); now < before || now > after {
		t.Errorf("it is %v, between %v and %v", now, before, after)
	}
}
