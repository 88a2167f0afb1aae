// Package sqlnode is a node in a SQLite database file: a lock among the
// processes of one machine, without a server. Every operation is one immediate
// transaction that applies the rules of package node/rule to two rows, the
// lease of the name and the register of its stripe, and to the queue of those
// who wait for the name.
//
// The clock on Linux is CLOCK_BOOTTIME, which no setting of the wall clock
// moves and which goes on during a suspend. It starts anew with every boot, so
// a lease is stored with the kernel's boot id, and one of another boot is void:
// its holder died with that boot. Elsewhere it is the wall clock, in
// milliseconds; a step of that clock ends leases early or late.
//
// The file must be on a local disk, and belongs to one running kernel at a
// time. Not on NFS or SMB, whose locks are unreliable; not shared between
// virtual machines, nor between containers that are given a boot id (LXC) or
// time namespace of their own: they would take each other's leases for void.
// Docker's containers share both.
//
// All who share the file must find the same one, and the same -wal and -shm beside it. A
// file with several hard links, or mounted by itself into a container, is refused when it
// is opened, and a link that is made later is found by the next operation (mount the
// folder, and use symbolic links). A file, or -shm, that is deleted or replaced under an
// open node ends the locks on it at the next extension of each, so within a third of its
// TTL; until then, who opens the new file may have the same lock. End all programs before
// the file is touched. A watch on the folder would tell sooner, and never at once.
//
// Waiters are notified through named pipes, one for each process that waits, in
// the folder path-waiters beside the file, where links lead to; it stays, empty,
// when nobody waits. A pipe has a reader only while its process lives, so whoever releases a lock
// sees at once who is gone; it costs nothing while nobody is notified, and works
// between containers that share the file's folder. Unix sockets would need a
// short path, or a network namespace in common; a watch on a file cannot tell
// who still watches. On Windows waiters are not notified.
package sqlnode
