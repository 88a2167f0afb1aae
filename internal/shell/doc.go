// Package shell is what is around the algorithm of internal/core. It makes attempts, sends requests
// and bounds them in time, extends what is held, and has callers wait. It is driven by callbacks
// over a small environment (Env, Peer), and never blocks. The library gives it goroutines, timers
// and real nodes, the simulator one event heap. Both run this code.
//
// From the top down. Files use those below them; a few pairs use each other:
//
//	client.go       Client: a process's locks on one quorum group
//	acquisition.go  Acquisition: one caller, from its first attempt to its release
//	localqueue.go   the callers of this process for one name, of whom one asks the nodes
//	waiters.go      the waiters of this process in the nodes' queues
//	waiter.go       one of them: its place, and when it tries again
//	turn.go         when an acquisition makes an attempt
//	pacing.go       has acquisitions wait for their turn while the nodes are behind
//	lock.go         Lock: one attempt, and what becomes of it
//	export.go       how a lock is exported for another process
//	drive.go        how it drives the core: answers and ticks in, decisions out
//	strays.go       leases without a holder: releases that are repeated
//	leaving.go      releases that no lock waits for
//	failure.go      why something failed, for the errors
//	fanout.go       the requests of one action
//	health.go       which nodes work, as their answers tell, for people
//	ticks.go        wakes the locks that are held, by one timer
//	deadlines.go    ends the requests whose time is up, by one timer
//	inflight.go     counts what is under way
//	group.go        what all locks of a Client share
//	rules.go        what the shell asks of internal/core
//	options.go      what one acquisition is made with
//	env.go          the world around it
package shell
