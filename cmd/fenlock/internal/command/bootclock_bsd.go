//go:build darwin || freebsd

package command

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is documented in bootclock_linux.go. Here it is CLOCK_MONOTONIC.
func bootClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("fenlock: clock_gettime(CLOCK_MONOTONIC): " + err.Error())
	}
	return time.Duration(ts.Nano())
}
