// Heal holds locks on real servers while these go one after the other, and counts
// the locks that are lost: none may be. "make heal" prints the table.
//
// The promise is that a lock is not lost while a majority of the nodes answers
// throughout, and each node that comes back votes for half a TTL before the next one
// goes. So a fault ends with that, and no more: until a server that forgot its locks
// is admitted again, and half a TTL.
//
//	main.go    the flags, the table
//	rows.go    the rows: who does what beside the holders, and which fault strikes
//	scene.go   one row, from its servers' start to their end
//	servers.go what is done to servers, and until when it lasts
//	held.go    the locks that are held, and what becomes of them
//	trace.go   what the nodes answered, for the locks that are lost
//	others.go  traffic on other names, waiters, those who try
package main
