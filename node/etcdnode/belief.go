package etcdnode

import (
	"fmt"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rule"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// belief is what is in etcd about a name, as far as an operation goes by it: it was read,
// or is a guess. What is decided by it is compared in the transaction that carries it out.
type belief struct {
	read bool // as it was when it was read, all of it

	lease    record
	leased   bool  // the key is there
	leaseMod int64 // its revision
	// Its value, which has the holder's random identity and the time of the write; empty if it is not
	// known. Revisions count anew in a cluster that was made anew in its place.
	value string

	// The register, and the revision of its key, 0 if there is none. Or, with below, one that is
	// smaller than that: etcd can compare it although no client has read it.
	register    fence.Token
	registerMod int64
	below       fence.Token

	queue queueBelief
}

// queueBelief is what is known of the queue of a name.
type queueBelief struct {
	first []queued // the first of it, in order
	more  bool     // there may be others after these
	all   int      // as they were counted
	ahead int      // of the asker's place
	in    bool     // the asker is in it
	// awake tells of clients whether they listen; of those that are missing it is guessed.
	awake map[string]bool
}

// queued is a waiter's key.
type queued struct {
	node.Place
	mod   int64            // the revision of its key
	lease clientv3.LeaseID // that it is attached to: it goes when its process does
}

// headsAtOnce is how many waiters are read at first.
const headsAtOnce = 2

// question is what is read of a name.
type question struct {
	keys  keys
	name  string
	asker node.Place // the place of the client that asks, as it is in the queue; empty if there is none
	heads int        // how many waiters are read
	wakes []string   // clients
}

// ops are the reads, in one transaction. They cost little where the keys are not there.
func (q question) ops() []clientv3.Op {
	all := []clientv3.Op{
		clientv3.OpGet(q.keys.lease(q.name)),
		clientv3.OpGet(q.keys.register(node.Stripe(q.name))),
		q.headsOp(),
		clientv3.OpGet(q.keys.queue(q.name), clientv3.WithRange(q.keys.queueEnd(q.name)), clientv3.WithCountOnly()),
		// The last one tells how late it is, if its client's clock is ahead.
		clientv3.OpGet(q.keys.queue(q.name), clientv3.WithRange(q.keys.queueEnd(q.name)),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(1), clientv3.WithKeysOnly()),
	}
	if q.asker.Waiter != "" {
		own := q.keys.waiter(q.name, q.asker)
		all = append(all,
			clientv3.OpGet(q.keys.queue(q.name), clientv3.WithRange(own), clientv3.WithCountOnly()),
			clientv3.OpGet(own, clientv3.WithCountOnly()))
	}
	for _, client := range q.wakes {
		all = append(all, clientv3.OpGet(q.keys.wake(client), clientv3.WithCountOnly()))
	}
	return all
}

func (q question) headsOp() clientv3.Op {
	return clientv3.OpGet(q.keys.queue(q.name), clientv3.WithRange(q.keys.queueEnd(q.name)),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend), clientv3.WithLimit(int64(q.heads)),
		clientv3.WithKeysOnly())
}

// believe reads the answers to the question.
func (q question) believe(clock *sharedClock, answers []*clientv3.GetResponse) (b belief, err error) {
	b.read = true
	if kvs := answers[0].Kvs; len(kvs) > 0 {
		b.leased, b.leaseMod, b.value = true, kvs[0].ModRevision, string(kvs[0].Value)
		if b.lease, err = parseRecord(kvs[0].Value); err != nil {
			return b, err
		}
		clock.read(b.lease.written)
	}
	if kvs := answers[1].Kvs; len(kvs) > 0 {
		b.registerMod = kvs[0].ModRevision
		if b.register, err = parseRegister(kvs[0].Value); err != nil {
			return b, err
		}
	}
	b.queue.first = q.waiters(answers[2].Kvs)
	b.queue.more = answers[2].More
	if len(b.queue.first) < len(answers[2].Kvs) {
		// No transaction could state that there is no waiter.
		return b, fmt.Errorf("%w: below %s", errForeign, q.keys.queue(q.name))
	}
	b.queue.all = int(answers[3].Count)
	if kvs := answers[4].Kvs; len(kvs) > 0 {
		if last, ok := q.keys.place(q.name, string(kvs[0].Key)); ok {
			clock.read(time.Duration(last.Stamp) * time.Microsecond)
		}
	}
	next := answers[5:]
	if q.asker.Waiter != "" {
		b.queue.ahead, b.queue.in = int(next[0].Count), next[1].Count > 0
		next = next[2:]
	}
	b.queue.awake = map[string]bool{}
	for i, client := range q.wakes {
		b.queue.awake[client] = next[i].Count > 0
	}
	return b, nil
}

// waiters reads keys of waiters, and leaves out those that are none.
func (q question) waiters(kvs []*mvccpb.KeyValue) (first []queued) {
	for _, kv := range kvs {
		if p, ok := q.keys.place(q.name, string(kv.Key)); ok && rule.CheckPlace(p) == nil {
			first = append(first, queued{p, kv.ModRevision, clientv3.LeaseID(kv.Lease)})
		}
	}
	return first
}

// entry is the belief as the rules have it, when the node's clock shows now. SeenFor returns for
// how long this process has seen a reservation.
func (b *belief) entry(now time.Duration, seenFor func(mod int64) time.Duration) rule.Entry {
	e := rule.Entry{Register: b.register}
	if b.below > 0 {
		e.Register = b.below - 1
	}
	if !b.leased {
		return e
	}
	e.Holder, e.Origin, e.Token = b.lease.holder, b.lease.origin, b.lease.token
	e.Expires = now + b.lease.remaining(now)
	if e.Holder.Reserves() {
		// What decides is how long this process has seen it, never another client's clock.
		e.Expires = now + rule.ReservationTTL - seenFor(b.leaseMod)
	}
	return e
}

// responses returns the answers to reads that were in a transaction.
func responses(a outcome) []*clientv3.GetResponse {
	all := make([]*clientv3.GetResponse, len(a.Responses))
	for i, r := range a.Responses {
		all[i] = (*clientv3.GetResponse)(r.GetResponseRange())
	}
	return all
}
