// Package filenode is a node in a plain file: a lock among the processes of one machine, without a
// server. Each operation is some microseconds under a lock of the kernel's, applies the rules of
// package node/rule, and writes what has changed. Waiters do not poll, and contention is no error:
// processes that want the file at the same time are in a queue of the kernel's.
//
// The file has a header and 256 rooms, each with the leases, queues and registers of 16 stripes.
// Rooms never wait for the disk. A process that is killed loses nothing that was answered. After a
// boot, which ended all holders, rooms are void. The header says in which boot the file is used,
// and which numbers a register may reach; it waits for the disk once an hour, so that tokens go on
// growing after a power failure. All that is written has a checksum and an older copy beside it.
//
// Leases end by time, or, after Node.Bind, with this process and those that it shares them with.
// Then nothing has to be extended, a killed holder's lock is free at once, and a stopped holder's
// is not lost.
//
// A file has no use for a short node timeout: its answer comes late on a busy machine, and is as
// good. Set fenlock.Config.NodeTimeout to a quarter of the TTL, the most there is, as fenlock run
// does. A release is carried out even if its context ends while it waits for another process.
//
// The clock on Linux is CLOCK_BOOTTIME, less what a time namespace adds. No setting of the wall
// clock moves it, and it goes on during a suspend. On macOS and FreeBSD it is the wall clock: a
// step of it ends leases early or late. On other systems there is no such node.
//
// The file must be on a local disk, and belongs to one running kernel at a time. NFS, SMB and other
// network file systems are refused. A container that is given a boot id of its own (gVisor), or a
// virtual machine, is refused while another has the file open; between two that use it in turn,
// each would take the leases of the other for void. Docker's containers share the boot id. A file
// in a container's own layers (overlayfs) is another one on the host. That file shares no locks
// with it and is not noticed before the next operation. So let containers share a mounted folder.
//
// The file may have several names, by links or mounts. If a file is deleted or replaced under an
// open node, its locks end at the next extension, so within a third of their TTL. Until then, a
// process that opens the new file may have the same lock. So does a backup that is put back in
// place, and that is not noticed: end all programs before the file is touched.
//
// Waiters are notified through named pipes, one for each process that waits, in the folder
// path-waiters beside the file; it stays, empty, when there are no waiters. A pipe has a reader
// only while its process lives, so a release sees at once which waiters are gone. It works between
// containers that share the file's folder; a process that comes to the file by another folder, and
// is not found there, asks again and again. Unix sockets would need a short path, or a network
// namespace in common; a watch on a file cannot tell whether a process still watches. Where leases
// are bound (Node.Bind), a waiter waits in the kernel for the one before it. Its process has a pipe
// after five seconds, or at once if a waiter or a holder before it is not of this kind.
package filenode
