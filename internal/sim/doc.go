// Package sim runs fenlock in a made-up world. It has nodes and clients with clocks of their own, a
// network that delays, loses and reorders, partitions, crashes, pauses. One seed determines a run
// to its last event.
//
// The world drives the code that ships: a shell.Client in each process, and through it
// internal/core, the rules of node/rule, admit.Try and fence.Guard. What is made up is what is
// around them. That is the processes' environment (env.go), the network (network.go), and what an
// engine does around the rules and a store (node.go). It is also how a process has a store
// admitted, step by step (admission.go, foreign.go). The exhaustive check in internal/core visits
// every state of a tiny group; the simulator visits a few states of a large one, with time, and
// with everything at once.
//
// Checkers watch (package check, check_*.go). They watch validity, tokens, the guarded resource,
// extensions, progress, how a lock ends, and how often a waiter tries. They watch the order of
// service where nothing goes wrong, and what is left over. No store may be admitted against its
// group's terms, or without registers that it needs.
//
// The files of testdata are runs without chance, written by hand, with what the nodes
// see in them (script.go).
package sim
