//go:build darwin || freebsd

package inherited

import (
	"os/signal"
	"syscall"
)

// untouched returns which of SIGHUP and SIGINT are ignored: Go's runtime leaves these alone then.
func untouched() (s signals) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			s |= 1 << (sig - 1)
		}
	}
	return s
}
