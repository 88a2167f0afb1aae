// Package fenlock is a distributed lock: of many processes on many machines,
// one at a time holds the lock of a name.
//
//	locker, err := valkeynode.OpenLocker("valkey://10.0.0.1", "valkey://10.0.0.2", "valkey://10.0.0.3")
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//	return locker.Do(ctx, "orders/42", func(ctx context.Context, token fenlock.Token) error {
//		return settle(ctx, token) // ctx ends when the lock is lost; token goes with each write
//	})
//
// # How it works
//
// A Locker takes a lock by majority over N independent nodes (the Redlock algorithm). It
// leases the name on all of them at once. It holds the lock if a quorum, N/2 + 1, granted the
// lease in time. The nodes do not communicate. A held lock extends itself. If its holder dies,
// the leases expire.
//
// Every acquisition has a fencing token: a number that only grows, agreed on by the same
// majority. A resource that refuses a smaller token than it has seen (package fence) stays
// correct even if a holder was paused beyond its lease. A node that lost its memory does not
// vote until it cannot contradict what it has forgotten.
//
// If the lock is held, the caller waits in a FIFO queue on the nodes and is notified when its
// turn comes. Queues decide which waiter tries next; the leases alone decide which client
// holds the lock.
//
// ARCHITECTURE.md in the repository has the map of the code. internal/core has the algorithm
// and the argument why its rules hold.
//
// # How to use it
//
//   - Use Lock.Context for the work: it ends before another client can hold the lock.
//   - Send Lock.Token to the resource, if the resource can check it. Without that check, mutual
//     exclusion assumes that clocks run at about the same rate and that pauses are shorter
//     than the validity.
//   - Use errors.Is to distinguish ErrHeld, ErrNoQuorum, ErrLost and the context's own errors.
//
// # Testing your code
//
// Test it with the real Locker, on nodes in memory (package node/memnode), inside a
// testing/synctest bubble. A Locker that is made there uses the bubble's clock without any
// configuration, so leases expire as fast as the test runs. docs/testing.md in the repository
// shows holders that die, locks that are lost and tokens that are stale.
package fenlock
