// Package runner makes one history: it starts servers and clients, lets the faults of
// a plan strike, writes down what everybody noted, and has it checked.
package runner
