//go:build !linux

package clock

import "time"

var start = time.Now()

// Now is documented in clock_linux.go.
func Now() time.Duration { return time.Since(start) }

// ForTimers returns Now, which is the clock that Go's timers go by, inside a
// testing/synctest bubble too.
func ForTimers() func() time.Duration { return Now }
