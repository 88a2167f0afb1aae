//go:build linux

// Faults lets client processes use locks on five real servers while faults strike these. Two kinds
// strike at a time, by a schedule that a seed decides. What happened is written down and checked
// (package history). "make faults" runs a campaign.
//
// The servers are Valkey's, or with -engine those of another one, each a node by itself. Two groups
// are mixed: "mixed" has two kinds of servers in turn, "stores" one each of five other kinds. With
// -nodes 1 a group is one server, as most people have them who use a database. Nothing is excused
// there but two things. One is what a kind of fault breaks. The other is the order of tokens where
// a majority of the servers loses its registers, which those of PostgreSQL, etcd and ZooKeeper
// never do. That a server forgets its leases and is out for a while, as PostgreSQL does after a
// crash, is for the lock to bear.
//
// With -engine file the clients share a file, and there are no servers. Clients are killed one
// after the other and stopped, the file's disk is full, and its pipes are removed. The file is also
// deleted or replaced, which ends locks. The file is on a small disk of its own, which takes root,
// or "unshare -Urm".
//
// The locks are exclusive. With -locks they are shared names, several names at a time, slots, or a
// lead with followers: package worker has a file for each.
//
// The packages, each of which imports only those after it:
//
//	faults     the flags, the campaign of many histories, its report, the comparison
//	runner     one history
//	worker     the client processes
//	plan       which faults strike when
//	kinds      the table of kinds of faults
//	cluster    the servers: what all engines have in common, and a file for each
//	steps      what Valkey's servers did, as steps of the model that is proved
//	wallclock  a server's clock; the network before it is testserver/proxy
//	library, resource   lock libraries, and what the locks protect
//	draw       random durations
package main
