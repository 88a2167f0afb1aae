// Package zknode makes an Apache ZooKeeper ensemble (3.5 or later) a node of fenlock. One
// ensemble is one node, however many servers it has.
//
// It is an adapter of package cas. All that there is about the names of a stripe is one znode: the
// register, the leases and the queues. Every operation is one multi (a transaction) that sets it.
// It fails unless the znode has the version that was read, and the mark of admission is there. So
// an operation whose multi was refused has done nothing. A refusal is written too, since a server
// may read to a client what is no more.
//
// No server's clock decides. A stripe has a clock in its znode, which a write moves on by as long
// as its client has seen the znode unchanged. It is never faster than time, and stands still while
// no client looks. So a client may remove a lease as well that it has seen unchanged for its TTL.
// It may also remove one whose session has ended, the session in which it was written: that
// outlives the lease. A client removes what it has written itself when the TTL is over. The search
// in model_test.go finds two holders without any of these rules, and none with all.
//
// A client that listens has a znode of its own, its mailbox. The multi that gives it a name writes
// there.
//
// The package speaks ZooKeeper's protocol itself (internal/wire, internal/session), since
// github.com/go-zookeeper/zk v1.0.4 does not serve. It does not tell how long a session is that the
// servers have granted, nor when they last heard of it. It pings once in a third of that time, so a
// lease might outlast its session. What waits is sent over the next connection, maybe to servers
// that were set back, before they can be looked over. When a session has expired, it forgets which
// transactions it has seen. Here a request is sent once or not at all, and ends with its context. A
// server that sends nonsense costs a connection.
package zknode
