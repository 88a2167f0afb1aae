// Package sim runs fenlock in a made-up world. It has nodes and clients with clocks of their own, a
// network that delays, loses and reorders, partitions, crashes, pauses. One seed determines a run
// to its last event.
//
// The world drives the code that ships: a shell.Client in each process, and through it
// internal/core, the rules of node/rule, admit.Try and fence.Guard. What is made up is what is
// around them. The exhaustive check in internal/core visits every state of a tiny group; the
// simulator visits a few states of a large one, with time, and with everything at once.
//
// The files use each other one way, from the world down to time and chance:
//
//	sim.go script.go               a run by a seed, or by a file of testdata, without chance
//	faults.go strikes.go           what is done to the world (world.go)
//	user.go export.go              programs that lock
//	client.go lock.go watch.go     a shell.Client; what the checkers see of its locks
//	env.go                         the environment of a shell
//	admission.go                   a process has a store admitted, step by step; another group's
//	network.go node.go             messages; what an engine does around the rules and a store
//	run.go profile.go kinds.go     what all of these know of their run
//	engine.go                      events, clocks and chance
//
// Checkers watch (package check, check_*.go). They watch validity, tokens, the guarded resource,
// extensions, progress, how a lock ends, and how often a waiter tries. They watch the order of
// service where nothing goes wrong, and what is left over. No store may be admitted against its
// group's terms, or without registers that it needs. Each step may have to be one of the models
// that are proved (package proofsteps).
package sim
