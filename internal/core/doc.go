// Package core is the algorithm of fenlock as a state machine: replies and times in, actions out.
// It has no goroutine, no clock, no randomness and no I/O. So the shell (internal/shell), the
// simulator and the exhaustive check all run this very code.
//
// An Attempt is one holder's whole life on a quorum group. That is the round that acquires, the
// rounds that confirm a token, the rounds that extend, and the release. The rules and the argument
// why they hold are in README.md beside this file; TestEveryInterleaving searches all reachable
// states of a small group.
package core
