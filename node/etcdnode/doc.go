// Package etcdnode makes an etcd cluster a node of fenlock: the whole cluster is one
// node, usually the only one of its group.
//
// It is an adapter of package cas. All that there is about the names of a stripe is one key: the
// register, the leases and the queues. Every operation is one transaction that writes it. It
// compares the key's revision, that the mark of admission is there, and the session. Revisions
// never come twice, so no transaction can be carried out twice, whatever happens on its way. One
// whose comparison failed has changed nothing, and returns what is there now.
//
// etcd's transactions know no time. A stripe has a clock in its key, as package cas has it. What a
// process writes within a second belongs to a session. That is a key which etcd removes some time
// after all that was written in it has ended. So a client that was never here before finds the
// lease of a dead process free. Sessions are never renewed (session.go).
//
// What this process has written last is remembered, and served by it: an uncontended acquire, and
// its release, are one round trip. Transactions about different stripes travel together (batch.go).
//
// The keys of a node, below its prefix:
//
//	stripe/NUMBER           the record of a stripe, never deleted
//	session/ID              a session of a process, attached to an etcd lease
//	wake/CLIENT             a client that listens: what is written there it is told
//	meta, notice, quarantine, seen, stamp    admission, see there
//
// docs/etcd.md has the rights that a user needs.
package etcdnode
