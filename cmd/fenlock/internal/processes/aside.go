//go:build linux || darwin || freebsd

package processes

import "runtime"

// Aside calls start, which starts a process and stands still until that has become its program.
// That is for ever, if it is stopped before, or its program is on a server that does not answer.
// The other goroutines go on, also where they have one processor, which start does not leave to
// them.
func Aside(start func() error) error {
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(1)
	}
	return start()
}
