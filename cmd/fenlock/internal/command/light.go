//go:build linux || darwin || freebsd

package command

import (
	"os"
	"runtime"
)

// startLight makes the start of fenlock run cheaper: it starts with each command that is locked,
// and waits from then on. The threads of a second processor would only look for work.
func startLight() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	deepen()
}

// deepen has the stack grow once, while there is little to copy, to what the commands need.
// Otherwise it doubles four times, each time deeper within cobra.
//
//go:noinline
func deepen() byte {
	var room [56 << 10]byte
	return room[len(os.Args)&1]
}
