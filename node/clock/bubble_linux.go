package clock

import (
	"syscall"
	"time"
	"unsafe"
)

const clockRealtime = 0

// ForTimers returns Now, unless Go's timers go by another clock: inside a
// testing/synctest bubble it returns that of the bubble. There, time.Now is years
// away from the system's clock. They are compared twice, so that a step of the
// system's clock between two readings is not taken for a bubble.
func ForTimers() func() time.Duration {
	for range 2 {
		if !apart() {
			return Now
		}
	}
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// apart reports whether time.Now is not the system's time.
func apart() bool {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockRealtime, uintptr(unsafe.Pointer(&ts)), 0)
	d := time.Since(time.Unix(ts.Unix()))
	return errno == 0 && d.Abs() > time.Hour
}
