// Package natsnode is a node in a key-value bucket of NATS JetStream, on one server or a cluster.
// Open opens it by a URL. README.md beside this file says how to set it up.
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
// promised. A token can come twice. All servers that may have the bucket need sync_interval:
// always, which no client can see. So Migrate requires an assertion of it. The bucket keeps the
// assertion as metadata, without which it is refused.
//
// A bucket must be made by Migrate. What other tools make has direct gets allowed. Any server may
// answer these, with what was true some time ago. All other settings that count are looked at with
// the time. A bucket with other settings is refused, with the setting's name (bucket.go has the
// list).
//
// NATS tells of a missing right beside all answers; the request that it is of would get none, and
// is ended (link.go). Answers and notices come on subjects of the bucket, so that the rights of
// README.md are all.
//
// # Connections
//
// A node has one connection, which it makes for its first request. The client library does not
// reconnect: it would say less about what is wrong, and send requests later that no caller waits
// for. The next request after a loss connects anew, to any of the hosts.
//
// # Waiters
//
// A client that listens is subscribed to a subject of its own. After a write was acknowledged, its
// writer publishes the notices in it. A server says at once whether a client is subscribed at all,
// and a client that is answers. A notice that is lost delays its waiter until that asks again. A
// program with the right to publish on these subjects can make up notices, as it could with the
// records.
//
// # A bucket that forgot
//
// Package admit decides whether the bucket votes. The mark of admission, under a key of its own,
// has the bucket's time of creation. Its revision is its name. Each record repeats the name of the
// mark that its leases were made under. A lease under another mark does not count, so no lease
// outlives an admission.
//
// NATS compares one key, or the whole bucket, in a write. A write of a record compares the record,
// and so the bucket. Migrate has revisions begin at a random number, and no two buckets have a
// revision in common. The first write of a stripe, which has none, compares the last write of the
// whole bucket instead. The mark itself is read, after the time. A lease that is made although the
// mark was removed meanwhile ends, at the latest, the longest lease after that, as the quarantine
// assumes. There is one exception. A server that has lost the lead, and does not know yet, shows a
// mark that was removed some seconds ago. If its network heals before the write, that lease may
// outlive the quarantine by these seconds.
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
// The tests kill and stop a server, kill the leader of three, make a bucket anew, and remove its
// files. Two things are relied upon. An acknowledged write outlives a power cut. A leader that was
// cut off acknowledges nothing and stores nothing of its own.
//
// Its tokens are fenlock's own registers. The revisions of a bucket are no tokens: they grow with
// each write under any key, and begin anew with a new bucket.
//
// Names of one stripe wait for each other's writes. A record has to fit into a message
// (max_payload, 1 MiB): some thousand leases in one stripe.
package natsnode
