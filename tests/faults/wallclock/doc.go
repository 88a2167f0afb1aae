// Package wallclock moves the wall clock of the processes that run with its
// environment, while they run. A preloaded library (wallclock.c) adds an offset
// from memory that it shares with the harness to what the kernel says.
package wallclock
