//go:build !linux

package boottime

import "time"

var start = time.Now()

// Now is documented in boottime_linux.go.
func Now() time.Duration { return time.Since(start) }
