// Package admission answers whether a server may vote. One that forgot its leases
// would grant what others hold, and one that forgot its registers would promise
// numbers that were used. ARCHITECTURE.md: "A server that restarts".
//
// Whoever sends requests asks a Voting for the Server, and a Proof of that for each
// answer. admit.go lets a server vote again, and verdict.go decides when.
package admission
