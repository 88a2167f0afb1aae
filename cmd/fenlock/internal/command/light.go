//go:build linux || darwin || freebsd

package command

import (
	"os"

	"github.com/fenlock/fenlock/cmd/fenlock/internal/light"
)

// startLight makes the start of fenlock run cheaper: it starts with each command that is locked,
// and waits from then on. Other subcommands use all processors, and so does one with GOMAXPROCS.
func startLight(only string) {
	if only != "run" && only != "version" || os.Getenv("GOMAXPROCS") != "" {
		light.Undo()
	}
	if only == "run" {
		deepen(-1)
	}
}

// deepen has the stack grow once, while there is little to copy, to what the commands need.
// Otherwise it doubles four times, each time deeper within cobra. Without a place to look at, the
// room stays as it is: what nothing uses costs no page faults.
//
//go:noinline
func deepen(at int) byte {
	if at < 0 {
		return 0
	}
	var room [24 << 10]byte
	return room[at]
}
