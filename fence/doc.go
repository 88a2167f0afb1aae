// Package fence holds the fencing Token and the guard that checks it.
//
// A lock alone cannot stop a holder that was paused for longer than its lease and then goes on to
// write. Only the resource that is written to can: it remembers the largest token it has seen, and
// refuses a smaller one. This package has the Guard for a resource in memory. fence/fencesql checks
// tokens inside a database transaction, fence/fencepgx in one of pgx. fence/fences3 checks them in
// conditional writes to an S3-like store, fence/fencehttp in front of an HTTP handler, and
// node/valkeynode in a script on Valkey.
//
// A guard orders holders, not the writes of one holder. A write whose answer did
// not come may still arrive, after a later write of the same token, and passes. So
// repeat a write only if it does no harm to have it twice, and in any order;
// otherwise release the lock, and write on under a new token.
package fence
