//go:build darwin || freebsd

package processes

import (
	"os"
	"syscall"
)

// These systems are asked for no more than process groups: what left the command's
// group is out of reach. tree_linux.go says more.

// Adopts says that AdoptOrphans does what it says.
const Adopts = false

// AdoptOrphans does nothing.
func AdoptOrphans() {}

// Descendants knows of none.
func Descendants() []Process { return nil }

// Rename does nothing.
func Rename(string) {}

// Birth tells a process from one that has its id later, as far as it is there.
func Birth(pid int) (string, bool) { return "", syscall.Kill(pid, 0) != syscall.ESRCH }

// OwnProgram is this program, or what was put in its place.
func OwnProgram() (string, error) { return os.Executable() }
