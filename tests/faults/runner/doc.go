// Package runner makes one history. It starts servers and clients, lets the faults of a plan
// strike, writes down what all noted, and has it checked.
package runner
