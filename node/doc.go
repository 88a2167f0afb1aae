// Package node is what an engine has to do. It is the contract between fenlock and the stores that
// can hold a lock, as database/sql/driver is between database/sql and its databases. To take locks,
// use package fenlock and an engine. To write an engine, or a wrapper around one, use this package
// and node/rule for the decisions. Add node/rebuild if the store can lose its memory, and prove the
// engine with nodetest.
//
// # An engine
//
// An engine implements Node: four methods, of which Do carries out an operation.
// What else it can do is an interface of its own, each optional:
//
//   - Queuer: it keeps waiter queues, and notifies whose turn it is. Without it,
//     waiters poll.
//   - Rejoiner: it can lose its memory while its address stays the same.
//   - Finisher: it does not keep its Locker waiting, when that is closed, for a server
//     that was never reached.
//   - Admin: an operator can look at its leases, and break one.
//   - Examiner: it can say how its store does, and why it does not vote.
//   - Starter: its operations can be begun without a goroutine for each. An
//     Ordered one carries them out in the order in which they were begun.
//
// # A wrapper
//
// A wrapper embeds a Node, and overrides what it changes. It need not know what it wraps. Queuer,
// Rejoiner, Finisher, Admin and Examiner are looked for on Node.Engine, which it has from the node
// that it embeds. Starter and Ordered are about how operations are sent, so they are looked for on
// the wrapper alone. A wrapper that overrides Do only is asked by Do, always.
package node
