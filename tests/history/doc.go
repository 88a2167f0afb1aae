// Package history is what happened between lock clients and real servers while faults struck: a
// file that can be checked again, and the checks.
//
// The file has a line of JSON with the Header and one for each Event, in the order of time. Time is
// the same for all processes: they run on one machine.
//
// Check checks the promises of docs/promises.md. An overlap of validity is excused by a fault that
// breaks a declared assumption. The fault must have struck between the beginning of the earlier
// acquisition and the later one. Nothing else is excused: the order of tokens and the guarded
// resource rest on no clock. Most checkers are those of the simulator (internal/check); in addition
// porcupine looks for an order of all operations that a fenced mutex allows (model.go,
// operations.go).
package history
