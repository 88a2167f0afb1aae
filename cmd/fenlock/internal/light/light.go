// Package light has Go use one processor from when the program starts, until Undo, for which
// fenlock run has no need. Threads of a second one would only look for work. If it is given up
// later, what it has kept for itself by then costs 90 page faults.
//
// Go initialises packages in the order of their paths, after those that they import. This one comes
// before nearly all others, as long as it imports nothing but runtime.
package light

import "runtime"

var processors = runtime.GOMAXPROCS(1)

func init() { deepen(-1) }

// deepen has the stack grow once, while there is nothing on it, to what the other packages and the
// commands need. Otherwise it doubles four times, each time deeper within regexp or cobra, and what
// is on it is looked up to be moved. Without a place to look at, the room stays as it is: what
// nothing uses costs no page faults.
//
//go:noinline
func deepen(at int) byte {
	if at < 0 {
		return 0
	}
	var room [24 << 10]byte
	return room[at]
}

// Undo has Go use the processors that it would have used, by the machine or by GOMAXPROCS.
func Undo() { runtime.GOMAXPROCS(processors) }
