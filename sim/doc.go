// Package sim runs the algorithm of fenlock in a made-up world: nodes and
// clients with clocks of their own, a network that delays, loses and reorders,
// partitions, crashes, pauses. One seed determines a run to its last event.
//
// The world drives the shipped code: core.Attempt, core.Turn, core.NodeTime,
// the rules of package rule, rebuild.Merge and fence.Guard. What is written here
// a second time is only what the shell does around the core (shell.go, wait.go)
// and what an engine does around the rules (node.go). The exhaustive check in
// internal/core visits every state of a tiny group; the simulator visits a few
// states of a large one, with time, and with everything at once.
//
// Checkers watch (package check, check_*.go): validity, tokens, the guarded
// resource, extensions, progress, how a lock ends, how often a waiter tries, the
// order of service where nothing goes wrong, and what is left over.
package sim
