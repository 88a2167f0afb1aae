// Package natsnode is an example of an engine on package cas, written by docs/adding-an-engine.md.
// It is a node in a JetStream key-value bucket of NATS, one server or a cluster. It shows how much
// a store with compare-and-swap needs, and is no part of a release.
//
// The names of a stripe, with its register, are one record under one key. Package cas reads and
// writes it, and decides; here is what it asks of a bucket (keys.go): the time, values with their
// revisions, and a write that carries the revision that was read. A write that was refused for its
// revision did nothing, so it is begun again. What becomes of a write without an answer is unknown,
// and it is never sent again. A refusal is not written. It may be an old answer, of a server that
// does not know yet that it has lost the lead. That costs the asker some time. A grant is always a
// write.
//
// # Time
//
// A write cannot read a clock. Each operation asks before for the stream's state, which has the
// time of the server that leads the stream (its wall clock). That is from after the operation has
// begun, so that a lease lasts for at least its TTL from then. It is from before the write, so that
// a lease is found to have ended late rather than early. The clients' clocks don't matter. What is
// assumed: the servers' clocks agree, and are not set forward. If a clock is set forward, or the
// next leader's is ahead, leases end early by as much. For so long two can hold a lock; tokens stay
// unique and ordered all the same. Run chronyd or the like on the servers. It costs one round trip:
// four for an operation that changes something, three for a refusal, without the servers' own among
// each other.
//
// # What the operator has to do
//
// A server acknowledges a write before it is on the disk: by default it syncs every two minutes. A
// power cut, or one of most servers of a cluster, then loses leases and registers that were
// promised. A token can come twice. All servers that may have the bucket need
//
//	jetstream { sync_interval: always }
//
// which a client cannot see. So Open requires an assertion of it, Config.SyncAlways. The servers'
// monitoring port shows it: "sync_always": true in the config of /jsz?config=1.
//
// A bucket must be made by Create. What other tools make has direct gets allowed. Any server may
// answer these, with what was true some time ago. All other settings that count are looked at with
// the time. A bucket with other settings is refused, with the setting's name (config.go has the
// list).
//
// The user needs the rights to request $JS.API.STREAM.INFO.KV_bucket and
// $JS.API.STREAM.MSG.GET.KV_bucket, to publish to $KV.bucket.>, and for admissions to
// request $JS.API.CONSUMER.*.KV_bucket.> and $JS.API.CONSUMER.MSG.NEXT.KV_bucket.>; for
// Create, $JS.API.STREAM.CREATE.KV_bucket. NATS tells of a missing right by the
// connection's error handler (nats.ErrorHandler); the client that asked gets no answer, and
// its request times out. The buckets of one group have different names: a bucket's name is what
// its clients call the node.
//
// # A bucket that forgot
//
// Package admit decides whether the bucket votes. The mark of admission, under a key of its own,
// has the bucket's time of creation. Its revision is its name. Each record repeats the name of the
// mark that its leases were made under. A lease under another mark does not count, so no lease
// outlives an admission.
//
// NATS compares one key, or the whole bucket, in a write. A write of a record compares the record,
// and so the bucket. Create has revisions begin at a random number, and no two buckets have a
// revision in common. The first write of a stripe, which has none, compares the last write of the
// whole bucket instead. The mark itself is read, after the time. A lease that is made although the
// mark was removed meanwhile ends, at the latest, the longest lease after that, as the quarantine
// assumes.
//
// What is found: the bucket was deleted and made anew; its servers have lost its files, and
// made it again with the same time of creation, so that the mark is missing. It is out
// then, for the longest lease of the group, and is rebuilt from the others.
//
// What stays unnoticed: a restored backup or a copy of the servers' files, which has its mark, its
// revisions and its time of creation. A loss of some records and not of the mark. A write that was
// on its way for longer than the longest lease, while files were lost and the bucket grew to the
// same revision. It begins at the same number. After a restore, stop all lockers for the longest
// TTL; tokens are larger than those of before only because proposals come from the wall clock.
//
// The registers for the rebuilding of others are not old. They are read in the order of the
// revisions until a write of the reader's own is seen, which a majority acknowledges.
//
// # What it promises
//
// For a group of this node alone: everything. That is so as long as the bucket lives, its servers'
// disks keep what they have synced, and their clocks are as said. After the bucket was made anew,
// leases are safe. Tokens are larger than before as far as the clients' clocks agree: there are no
// others to rebuild it from. A new bucket waits as well, unless the clients say that it is new
// (fenlock.Config.NewServers). Say that once: with it, a bucket of a group of one that was made
// anew does not wait.
//
// The tests kill a server, and the leader of three, make a bucket anew, and remove its files. Two
// things are relied upon. An acknowledged write outlives a power cut. A leader that was cut off
// acknowledges nothing and stores nothing of its own.
//
// Its tokens are fenlock's own registers. The revisions of a bucket are no tokens: they grow with
// each write under any key, and begin anew with a new bucket.
//
// Waiters poll. Names of one stripe wait for each other's writes. A record has to fit into a
// message (max_payload, 1 MiB): some thousand leases in one stripe.
package natsnode
