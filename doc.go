// Package fenlock is a distributed lock: of many processes on many machines,
// one at a time holds the lock of a name.
//
//	locker, err := valkeynode.OpenLocker("valkey://10.0.0.1", "valkey://10.0.0.2", "valkey://10.0.0.3")
//
//	err = locker.Do(ctx, "orders/42", func(ctx context.Context, token fenlock.Token) error {
//		// ctx ends when the lock is lost; token goes with each write
//	})
//
// # How it works
//
// A Locker takes a lock by majority over N independent nodes (the Redlock
// algorithm): it leases the name to itself on all of them at once, and holds
// the lock if a quorum, N/2 + 1, granted the lease in time. There is no
// connection between the nodes. A held lock extends itself. If its holder dies,
// the leases end by themselves.
//
// Every acquisition carries a fencing token, a number that only ever grows,
// agreed on by the same majority. A resource that refuses a smaller token than
// it has seen (package fence) stays correct even if a holder was paused for longer
// than its lease and does not know it yet. And a node that lost its memory does not
// vote until it can no longer contradict what it has forgotten.
//
// Whoever finds the lock taken waits in a queue on the nodes, first come first
// served, and is notified when it is free for it. Queues decide who tries
// next; who holds is decided by the leases alone.
//
// ARCHITECTURE.md in the repository says where what is; internal/core has the algorithm, and
// the argument why its rules hold.
//
// # What to hold on to
//
//   - Lock.Context ends before the lock can be somebody else's. Use it for the work.
//   - Lock.Token goes to the resource, if the resource can check it. Without that,
//     mutual exclusion rests on clocks that run at about the same rate and on pauses
//     shorter than the validity.
//   - errors.Is tells ErrHeld from ErrNoQuorum, ErrLost and the context's own errors.
//
// # Testing your code
//
// Test it with the real Locker, on nodes in memory (package node/memnode), inside a
// testing/synctest bubble. A Locker that is made there takes the bubble's clock, so
// that leases expire as fast as the test runs; nothing has to be configured.
// docs/testing.md in the repository shows how: holders that die, locks that are lost,
// tokens that are stale.
package fenlock
