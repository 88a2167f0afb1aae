//go:build !linux

package clock

import "time"

var start = time.Now()

// Now is documented in clock_linux.go.
func Now() time.Duration { return time.Since(start) }
