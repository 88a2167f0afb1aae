// Package cas makes a node of a store with compare-and-swap. Such a store can read a small value
// with its version, and write it if the version is unchanged. SQL databases, etcd, ZooKeeper, NATS
// JetStream and object stores can. Such a store does not decide anything, so that all of the
// deciding is here, once:
//
//   - Record is what a node remembers of the names of one stripe, as bytes.
//   - Node carries out the operations: it loads a record, has package rule decide, saves what was
//     decided, and begins anew if another client was first. What this process has saved last is
//     remembered, so that the usual release is one request.
//   - Queued is a Node whose store can tell a client something: its waiters queue.
//   - Package admit decides whether the store may vote.
//
// An adapter for a store gives a Store: Load, Save, List and Registers, and what package admit
// asks. A store that has nothing but keys gives Keys instead, of which Marked makes a Store: the
// mark of admission is a key then.
//
//	type Node struct{ *cas.Node }
//
//	func Open(url string) (*Node, error) {
//		...
//		n := &Node{}
//		n.Node = cas.New(n, store, cas.Config{Kind: "mystore", Name: name})
//		return n, nil
//	}
//
// Here is no I/O: an adapter has all of it.
//
// # Why it is safe
//
// A grant is always in a write that fails unless the record has the version that was decided on,
// also where nothing had to change. The unchanged version proves that what was read was not an old
// copy. A refusal may come from a read alone, and may be a little old. A write whose answer was
// lost is unknown, and is never repeated. The next release of its stripe is written in any case, so
// that the lost write fails if it comes late.
//
// A lease ends by the store's clock. Load reads that clock after the operation has begun: so a
// lease lasts for at least its TTL from there. Nothing is promised on a record that is only
// remembered. Whether the mark of admission is still there, and what the clock shows, is read for
// each promise. An experiment promised by an estimate of the clock instead. It had two holders when
// the table of the mark was made anew.
package cas
