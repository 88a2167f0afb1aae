//go:build linux || darwin || freebsd

package command

import (
	"os"
	"runtime"
)

// startLight makes the start of fenlock run cheaper: it starts with each command that is locked,
// and waits from then on. A second processor would only have threads look for work: without it a
// run takes an eighth less CPU time.
func startLight() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	deepen()
}

// deepen has the stack grow once, while there is little to copy, to what the commands need.
// Otherwise it doubles four times, each time deeper within cobra: a twentieth of the CPU time of a
// run.
//
//go:noinline
func deepen() byte {
	var room [56 << 10]byte
	return room[len(os.Args)&1]
}
