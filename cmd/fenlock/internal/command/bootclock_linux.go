package command

import (
	"time"

	"github.com/fenlock/fenlock/node/clock"
)

// bootClock is a clock that other programs of this machine can read too, and that counts the time
// for which the machine is suspended: CLOCK_BOOTTIME.
func bootClock() time.Duration { return clock.Now() }
