// Package zknode makes an Apache ZooKeeper ensemble (3.5 or later) a node of fenlock. One
// ensemble is one node, however many servers it has.
//
// A lease is an ephemeral znode of the holder's session; a register is a znode that is never gone,
// one for each stripe. Every operation is one multi (a transaction) that sets the register of the
// name's stripe. It fails unless the register has the version that was read before lease and queue
// were. So operations about a stripe happen one after the other, each on what the last has left. An
// operation whose multi was refused has done nothing.
//
// No clock decides in such a transaction: a lease is there as long as its znode is. It is removed
// when its TTL is known to be over: by its own client, which counts from the answer; by any client
// that has seen it unchanged for as long by its own monotonic clock; and by the servers, when the
// session of its client has ended, whose timeout is longer than the TTL. docs/zookeeper.md has the
// argument.
//
// The package speaks ZooKeeper's protocol itself (internal/wire, internal/session). So a request is
// sent once or not at all, and ends with its context. A server that sends nonsense costs a
// connection.
package zknode
