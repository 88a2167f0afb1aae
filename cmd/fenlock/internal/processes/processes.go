//go:build linux || darwin || freebsd

// Package processes is about the processes that this one has started, and what they have.
// It needs little of the standard library, so that package watchdog can begin early.
package processes

import (
	"runtime"
	"strconv"
	"syscall"
)

// Process is one of them.
type Process struct {
	Pid  int
	Name string
	Born string // tells it from one that has its id later
}

// String returns the process for people.
func (p Process) String() string { return strconv.Itoa(p.Pid) + " (" + p.Name + ")" }

// Reap reaps what has ended, and reports whether there are children left. A process
// that adopts orphans has none if, and only if, all that it has ever started have ended.
func Reap() (left bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR, pid > 0:
		default:
			return err == nil
		}
	}
}

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
