// Package etcdnode makes an etcd cluster a node of fenlock: the whole cluster is one
// node, usually the only one of its group.
//
// An operation is one transaction of etcd's. It compares what its decision depends on, by revisions
// that never come twice. A comparison that fails has changed nothing and returns what is there now,
// and the decision (package node/rule) is taken anew. So no transaction can be carried out twice,
// whatever happens on its way.
//
// A lock's lease is a key. etcd's transactions know no time, so a key goes in one of two ways. The
// process that wrote it removes it when its TTL is over. If that process is gone, etcd removes it a
// few seconds later, by the etcd lease that the key is attached to. An etcd lease is shared by what
// a process writes within a second, and is never renewed (sharedlease.go).
//
// The keys of a node, below its prefix:
//
//	lease/NAME              who has the name: a lock, or a reservation for a waiter
//	register/STRIPE         the register of a stripe, never deleted
//	queue/NAME/STAMP/WAITER who waits for a name, in order
//	wake/CLIENT             a client that listens: what is written there wakes its waiter
//	meta, notice, quarantine, seen, stamp    admission, see there
//
// Names are escaped as the segments of a URL's path are. docs/etcd.md has the rights
// that a user needs.
package etcdnode
