// Package pgnode is a node in a PostgreSQL database, 15 or newer. Every operation is one statement:
// a call of a function that the schema brings along (Schema, Migrate). It applies the rules of
// package node/rule to the rows of the name and of its stripe. The usual operations, on a name that
// no client waits for and none shares, are shorter statements (schema.go). If one of them finds
// nothing, it has done nothing, and the function is called. No session is needed: transaction
// pooling by pgbouncer will do.
//
// # What survives what
//
// Leases and queues are in tables that are not logged, so that a lock costs no wait for the disk.
// The registers are written ahead. A logged row says which number none has passed yet, ten minutes
// of proposals further on. It is on the disk, and on the replicas that the server waits for, before
// a number above the last one is promised. A server that is stopped and started keeps everything.
// After a crash, on a promoted replica and in a restored backup, PostgreSQL empties the unlogged
// tables. The node answers node.Rejoining until the longest lease of the group has passed, and goes
// on above every number that was promised. Package admit decides this. The mark of admission is a
// row in an unlogged table, too. It names the transaction that wrote it, the server, and the number
// and name of the database. So a mark in a dump or in a copy of the database is not believed.
//
// A primary that was cut off, and lives on beside its promoted replica, is not noticed: it has to
// be stopped before (docs/postgres.md). A client with several hosts uses the newest primary that it
// reaches (hosts.go).
//
// A register can go back where a logged row can: a replica that lagged behind by more than
// ten minutes' proposals, an old backup. Tokens then are larger than before only as far
// as the clients' wall clocks agree, since they propose these.
//
// # The way of a request
//
// A worker sends the usual requests on a connection that the pool has, those that come together in
// one write (start.go). The slow path is for a new connection, an admission, a pooler, and a driver
// other than pgx's (conn.go).
//
// # Two at a time
//
// Transactions are READ COMMITTED. A statement that has waited for a row sees that row as it is
// then, and the other tables as they were when it began. Hence:
//
//   - An operation locks the row of the stripe. It has the register, which all names of the stripe
//     share on every engine (package nodetest), and the lease of one of them. The leases of other
//     names that live at the same time are in a table of their own. A row there is locked after
//     the stripe's, since a sweep may be removing it.
//   - A usual operation depends on the row of the stripe and the mark only. "quiet" in it says
//     that the name has no queue and is not shared. "others" says that names of the stripe may have
//     leases in the other table. A transaction that changes this writes the row. So an operation
//     that has waited for it finds nothing, and calls the function, which sees what has come.
//   - A name takes the place of another one whose lease has ended, and which is quiet. A lease that
//     lives is never moved out of the row.
//   - The mark does not change while an operation waits for a row: note and mark lock the table of
//     stripes against all operations. Each operation has its lock on the table before it takes the
//     snapshot by which it reads the mark.
//   - A sweep locks rows of leases before it looks for their queues, and waits for no row. It has
//     its lock on the table of stripes before these, as note.
//   - An operation that commits a register on the disk, and on replicas, holds the row of the
//     stripe until then. All names of the stripe wait for it.
//
// # Sharing
//
// The lease of a shared name is as any other, so a name that is not shared costs nothing
// more; each of them has a row in a table of its own beside it. At most 256 share a name.
//
// # The clock
//
// Leases end by the server's wall clock, read in each operation, whatever now() or the
// time zone of a session says. A step of that clock ends leases early or late; tokens
// do not depend on it.
//
// # Waiting
//
// The schema keeps waiter queues. A client whose waiters wait has one connection of its own on
// which it is notified (LISTEN). A release leases the name to the first waiter, which holds it when
// it is notified. NOTIFY is used only when there is a waiter to notify, as it takes a lock of the
// whole server for a moment. Notifications may not arrive, through pgbouncer for
// instance, or no connection may be left. Then the client asks at growing intervals of 20 ms to
// half a second, in one statement for all of its waiters.
package pgnode
