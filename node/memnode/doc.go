// Package memnode is a node in the memory of one process. It is for tests, for examples, and to
// read how a node behaves without any server in the way. It locks nothing between processes.
//
// It has a clock of its own, so that a test can let a lease expire without waiting. It can lose its
// memory the way a server does that is killed and started again (Crash, Restart). There is no
// goroutine in it.
package memnode
