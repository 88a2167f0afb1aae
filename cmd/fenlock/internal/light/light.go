// Package light has Go use one processor from when the program starts, until Undo, for which
// fenlock run has no need. Threads of a second one would only look for work. If it is given up
// later, what it has kept for itself by then costs 90 page faults.
//
// Go initialises packages in the order of their paths, after those that they import. This one comes
// before nearly all others, as long as it imports nothing but runtime.
package light

import "runtime"

var processors = runtime.GOMAXPROCS(1)

// Undo has Go use the processors that it would have used, by the machine or by GOMAXPROCS.
func Undo() { runtime.GOMAXPROCS(processors) }
