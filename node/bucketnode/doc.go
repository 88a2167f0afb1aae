// Package bucketnode is a node in a bucket of S3, or of a store that speaks its protocol. Open
// opens it by a URL. README.md beside this file says how to set it up, and what a lock costs.
//
// # One object
//
// All that the node remembers is one object: the registers of all stripes, the leases, the mark
// of admission and the terms of the group. It is written with If-Match and the ETag that was
// read, once. So each promise is in a write that fails if anything has changed since: the record,
// the mark, or the whole store. An object store compares one object in a write, and no two. With
// an object for each stripe, the mark would have to be read apart. Scanning the registers would
// take as many requests as there are stripes.
//
// The price is that names wait for each other's writes. The requests of one process are carried out
// one at a time, each for all operations that came before it began. So 50 locks that are taken at
// once cost a handful of requests. Two processes that write at once have one of them refused, which
// reads and writes again.
//
// The content has a random part, and the ETag is a hash of it on most stores. So no write makes an
// ETag that was there before. An object that is put back has its earlier one: nothing is written
// over a state that was read more than 30 seconds ago. A write whose answer was lost is unknown,
// and never sent again: the library's retries are off. It cannot arrive after the next write,
// whatever that was of.
//
// # Conditions
//
// Some stores ignore conditions in silence. Before the mark is set, fenlock tries them on an
// object of its own under the prefix. It tries to update what is not there, to create twice, to
// update by an old ETag, and to update several times at once. If one of these passes that must
// not, nothing is granted. The mark has the hosts through which that was tried within a day. A
// client that comes through another one tries for itself. So does the doctor.
//
// # Time
//
// A lease ends by the store's clock: the Date of the answer that had the object. It has whole
// seconds, and some servers make it once in a second. So it is up to two seconds late, and leases
// are three seconds longer than their TTL (Slack of package cas). A lease that has ended is found
// to have ended up to four seconds late. It is never found so early, also by a process that lives
// for a moment. Clients' clocks do not matter, but a store refuses signatures that are a quarter
// of an hour off.
//
// A cache would answer with an old Date, and a lease would end too early. So each read has a URL of
// its own, by a parameter that stores ignore.
//
// What is assumed: the store's servers agree on the time within a second, and their clocks are not
// set forward. If one is, leases end early by as much. Tokens stay unique and ordered all the same.
//
// # A store that forgot
//
// Detected: the object was removed, with or without the bucket; the bucket is another one. Then
// there is no mark. An object that was copied or put back from a backup has its mark. But the
// store says when it was modified, and the content says when it was decided on, by the same
// clock. More than 30 seconds between them, and the object does not count. So a write that takes
// longer has the node out for MaxTTL, which is safe. An object that was set back to an earlier
// version, with its time, is noticed by a process that has seen a later one.
//
// Not detected: a version that is put back with its time while no process runs, or only processes
// that have not seen the later one; a copy that is put back within 30 seconds. Two buckets that are
// replicas of each other are two stores: name one of them.
//
// The operator's word: nothing else writes or expires the object, as a lifecycle rule would. Reads
// are what was written last, as S3, R2, MinIO and Google's store promise. A read that is old costs
// the reader a refused write, and promises nothing. What is assumed: a store keeps what it has
// acknowledged.
//
// # What it promises
//
// For a group of this node alone: everything, as long as the object is there. After its loss leases
// are safe, and tokens are larger than before as far as the clients' clocks agree. Tests run on a
// store of their own, and on Versity's gateway and gofakes3. Amazon's S3, R2, MinIO and Google's
// store were not tested: there was none to be had.
//
// Waiters poll. All leases of a node fit into 8 MiB.
package bucketnode
