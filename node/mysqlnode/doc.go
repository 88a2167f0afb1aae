// Package mysqlnode makes a MySQL (8.0 or later) or MariaDB (10.6 or later) primary a node
// of fenlock.
//
// It is an adapter of package cas. Three tables hold all of it. fenlock_stripes has one row for
// each register, made by Migrate and never deleted. A row is a cas.Record in its parts: the
// register, the leases of the names that share it, and their waiters. So an operation reads one
// row, and writes it in one statement if its version is still the one that was read (store.go).
// Where this process has written the row last, it is that statement alone. Both are statements of
// their own:
//
//   - No lock is held while the client decides. A client that is stopped in the middle, or cut off,
//     does not delay others; with SELECT ... FOR UPDATE it would keep its stripe for as long as the
//     server keeps the connection, eight hours by default.
//   - There is nothing to deadlock with, and no isolation level that matters.
//   - A statement that is carried out twice, or late, finds another version and does nothing.
//
// The time is the server's, read with the row. A clock that is read too early makes a lease
// shorter. A write on a row that was not read just before has the time that this process reckons.
// The server's clock may be ahead of that by the slack, by which each lease is longer. It may not
// be behind. The condition of such a write has what the read would have looked at: the mark, the
// connection, and the server's settings.
//
// On MariaDB the stripes may be in a table that is not logged (MyISAM), so that no lease waits for
// the disk. A run of the server votes on the leases of that run only then. The registers stay below
// a bound in fenlock_meta, which is on the disk before a token is promised. A server that is
// admitted after a loss goes on above it.
//
// fenlock_meta has what the clients of a group agree on, and the mark: which run of which server is
// admitted, and with which tables (meta.go). Package admit decides with it (admission.go). An
// operation compares the mark with what the server is. Its write compares two things more: that it
// is the same server, and that no note or mark came in between. fenlock_listeners has the clients
// that can be notified. A process that waits keeps a connection, on which it is woken (attend.go).
//
// No lock is GET_LOCK's: that is not replicated in a Galera cluster, and needs a connection for
// each lock.
package mysqlnode
