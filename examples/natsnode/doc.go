// Package natsnode is an example of an engine that was written by the guide of package
// nodetest: a node in a JetStream key-value bucket of NATS, one server or a cluster. It
// shows how much an engine needs, and is no part of a release.
//
// The names of a stripe, with its register, are one record under one key: a rule.Store.
// An operation reads the record, decides, and writes it if nobody else has written it
// since: the write carries the revision that was read. A write that was refused for its
// revision did nothing, so it is begun again; what becomes of a write that was not
// answered is unknown, and it is never sent again. A refusal is not written, and so may
// be as old as what a server answers that does not know yet that it is not the leader any
// more: it costs the asker some time. A grant is always a write. So is a release, even
// if there is nothing to release: a late write of the acquire that it undoes is refused
// then, and leaves no lease behind.
//
// # Time
//
// A write cannot read a clock. Each operation asks before for the stream's state, which
// has the time of the server that leads the stream (its wall clock). That is from after
// the operation has begun, so that a lease lasts for at least its TTL from then, and from
// before the write, so that a lease is found to have ended late rather than early.
// The clients' clocks don't matter. What is assumed: the servers' clocks agree, and are not
// set forward. By how much a clock is set forward, or that of the next leader is ahead,
// by so much leases end early, and for so long two can hold a lock; tokens stay unique
// and ordered all the same. Run chronyd or the like on the servers. It costs one round
// trip: three for an operation that changes something, two for a refusal, without the
// servers' own among each other.
//
// # What the operator has to do
//
// A server acknowledges a write before it is on the disk: by default it syncs every two
// minutes. A power cut, or one of most servers of a cluster, then takes back leases and
// registers that were promised, and a token can come twice. All servers that may have the
// bucket need
//
//	jetstream { sync_interval: always }
//
// which a client cannot see. So Open wants somebody's word for it, Config.SyncAlways. The
// servers' monitoring port shows it: "sync_always": true in the config of /jsz?config=1.
//
// A bucket must be made by Create: what other tools make has direct gets allowed, which
// may be answered by any server with what was true some time ago. Everything else of the
// configuration that counts is looked at with the time, and a bucket that has something else
// is refused, with the setting's name (config.go has the list).
//
// The user needs the rights to request $JS.API.STREAM.INFO.KV_bucket and
// $JS.API.STREAM.MSG.GET.KV_bucket and to publish to $KV.bucket.>; for Create,
// $JS.API.STREAM.CREATE.KV_bucket. NATS tells of a missing right by the connection's error
// handler (nats.ErrorHandler), and to whoever has asked, never: the request times out.
//
// # What it promises
//
// For a group of this node alone: everything, as long as the bucket lives, its servers'
// disks keep what they have synced, and their clocks are as said. Not after the bucket was
// deleted and made anew, or restored from a backup: a node that is open finds that and is an
// error from then on, but one that is opened later cannot know. Then all lockers have to be
// stopped for the longest TTL, and with a restored backup, whose registers are old, tokens
// are larger than those of before only because proposals come from the wall clock.
// It does not forget with a restart, so it is no node.Rejoiner for its own sake; and for
// others' it cannot be one, because the registers that it reads may be old: in a mixed
// group they are not rebuilt from it. The tests kill a server, and the leader of three; that
// an acknowledged write outlives a power cut, and that a leader that was cut off
// acknowledges nothing, is relied upon.
//
// Its tokens are fenlock's own registers. The revisions of a bucket are no tokens: they grow with
// each write under any key, and begin anew with a new bucket.
//
// Waiters poll. Names of one stripe wait for each other's writes, and a record has to
// fit into a message (max_payload, 1 MiB): some thousand leases in one stripe.
package natsnode
