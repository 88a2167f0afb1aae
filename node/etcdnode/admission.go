package etcdnode

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// voting implements admit.Store, but for Raise. A store is the one that wrote a mark if
// three things hold. Its cluster has the same id, raft has gone on, and the mark is where it was
// written. etcd measures time only by etcd leases, so a store is noted to be out in two steps.
// First the mark is removed. When that is certain, an etcd lease as long as the quarantine is
// requested.
// looked is what was read of a store. It is admit.Facts.State.
type looked struct {
	cluster     string
	index, term uint64
	revision    int64
	dials       int64 // as in Node, from before it was read
	lives       int   // as in voting
	meta        kept
	notice      kept
	stamp       int64 // the revision of its key
	seen        seen
	quarantine  *mvccpb.KeyValue // nil if it is not there
	recorded    bool             // there are stripes
	status      *clientv3.StatusResponse
}

// Facts implements admit.Store.
func (v *voting) Facts(ctx context.Context) (admit.Facts, error) {
	l, f, err := v.look(ctx)
	if err == nil && f.Votes && v.admission.Check(f.Terms) == nil {
		v.votes(&standing{l.meta.mod, f.Server, f.Memory, f.Terms, l.dials, l.lives})
		v.see(l)
	}
	return f, err
}

// statusTries bounds how often a client whose members are asked in turn asks for the status of the
// one that was read.
const statusTries = 30

// look reads what there is to know of the store, and writes nothing. What the member says of raft
// comes after the rest, so it is not less than what was written there. It must be the same member:
// another one may lag behind.
func (v *voting) look(ctx context.Context) (l *looked, f admit.Facts, err error) {
	n := v.cluster
	l = new(looked)
	var a outcome
	err = n.pool.repeat(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		v.mu.Lock()
		floor, lives := v.revision, v.lives
		v.mu.Unlock()
		l.lives, l.dials = lives, n.dials.Load()
		a, err = txn{Then: []clientv3.Op{
			clientv3.OpGet(n.keys.meta()), clientv3.OpGet(n.keys.notice()), clientv3.OpGet(n.keys.seen()),
			clientv3.OpGet(n.keys.stamp(), clientv3.WithKeysOnly()), clientv3.OpGet(n.keys.quarantine()),
			clientv3.OpGet(n.keys.stripes(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
			clientv3.OpGet(n.keys.before(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		}}.send(ctx, clientv3.NewKV(c))
		if err == nil {
			err = v.hear(a.Header, floor)
		}
		for range statusTries {
			if err == nil {
				l.status, err = askStatus(ctx, c)
			}
			if err != nil || l.status.Header.MemberId == a.Header.MemberId {
				return err
			}
		}
		return errors.New("the member that was read does not say how it does: others answer in its place")
	})
	if err != nil {
		return l, f, describe(ctx, err)
	}
	l.cluster, l.term, l.index = clusterID(a.Header), a.Header.RaftTerm, l.status.RaftAppliedIndex
	l.revision = a.Header.Revision
	f.Server, f.Untouched, f.State = l.cluster, true, l
	if l.status.IsLearner {
		return l, f, describe(ctx, rpctypes.ErrGRPCNotSupportedForLearner)
	}
	got := responses(a)
	if l.meta, err = readMark(n.keys.meta(), got[0].Kvs); err != nil {
		return l, f, err
	}
	if l.notice, err = readMark(n.keys.notice(), got[1].Kvs); err != nil {
		return l, f, err
	}
	if err := errors.Join(v.meet(l, a.Header.ClusterId, l.lives), v.admission.Serves(l.cluster)); err != nil {
		return l, f, err
	}
	if l.meta.mark != nil && l.notice.mark != nil {
		return l, f, engine.Misconfiguredf(
			"the store says that it was admitted, and that it is out: one of the keys %s and %s was written by hand", l.meta.key,
			l.notice.key)
	}
	if kvs := got[2].Kvs; len(kvs) > 0 {
		if err := decode(n.keys.seen(), kvs[0].Value, &l.seen); err != nil {
			return l, f, err
		}
	}
	if kvs := got[3].Kvs; len(kvs) > 0 {
		l.stamp = kvs[0].ModRevision
	}
	if kvs := got[4].Kvs; len(kvs) > 0 {
		l.quarantine = kvs[0]
	}
	l.recorded = got[5].Count > 0
	if got[6].Count > 0 {
		return l, f, olderFormat(1)
	}
	return l, f, v.judge(ctx, l, &f)
}

// judge fills in the facts of what was read.
func (v *voting) judge(ctx context.Context, l *looked, f *admit.Facts) error {
	v.mu.Lock()
	used := v.used
	v.mu.Unlock()
	switch {
	case l.meta.mark != nil:
		f.Terms, f.Memory, f.Empty = l.meta.Terms, l.meta.Memory, l.meta.Empty
		f.Marked, f.Votes, f.Recorded = true, v.whole(l, l.meta), true
		if f.Cause = node.SetBack; l.meta.Cluster != l.cluster || l.stamp != l.meta.mod {
			f.Cause = node.Replaced
		}
		return nil
	case l.notice.mark == nil:
		f.Cause, f.Recorded = node.Unused, l.recorded || used
		return nil
	}
	is := v.whole(l, l.notice)
	f.Terms, f.Recorded, f.Cause = l.notice.Terms, l.recorded || used || !l.notice.Fresh || !is, node.Replaced
	if !is {
		return nil
	}
	f.Memory = l.notice.Memory
	if l.notice.Cause != node.Present {
		f.Cause = l.notice.Cause
	}
	switch {
	case l.notice.Wait == 0 || l.notice.Wait < admit.Quarantine(v.admission.Terms().MaxTTL):
		return nil
	case l.quarantine == nil:
		f.Counted, f.Out = true, l.notice.Wait
		return nil
	case l.quarantine.ModRevision != l.notice.mod: // written by hand, maybe for ever
		return nil
	}
	f.Counted = true
	var a *clientv3.LeaseTimeToLiveResponse
	err := v.cluster.pool.repeat(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		a, err = c.TimeToLive(ctx, clientv3.LeaseID(l.quarantine.Lease))
		return err
	})
	if err == nil {
		f.Out = min(elapsed(a.GrantedTTL, a.TTL), l.notice.Wait-time.Second)
	}
	return describe(ctx, err)
}

// elapsed is how long ago at least an etcd lease was granted that has ttl whole seconds left, and
// more. A member that leads since a moment ago says that it has 300 years left.
func elapsed(granted, ttl int64) time.Duration {
	switch {
	case ttl < 0: // it has ended
		return math.MaxInt64
	case granted <= ttl:
		return 0
	}
	return time.Duration(granted-ttl-1) * time.Second
}

// whole reports whether the store remembers all since a mark was written there. One that was
// restored from a backup is another cluster, unless its members have the same addresses and the
// same token; then raft has begun anew. If raft has come as far again, it still has fewer entries
// than the revisions want. Each entry makes at most one revision, and the store that wrote the mark
// has a larger index than the mark says.
func (v *voting) whole(l *looked, k kept) bool {
	return !k.lost && k.Cluster == l.cluster && l.stamp == k.mod &&
		l.index >= max(k.Index, l.seen.Index) && l.term >= max(k.Term, l.seen.Term) &&
		l.revision-k.mod < int64(l.index-k.Index)
}

// seenEvery is by how many entries of raft's log the record of them may lag behind.
const seenEvery = 1000

// see writes down how far raft is, now and then.
func (v *voting) see(l *looked) {
	if l.index < l.seen.Index+seenEvery && l.term <= l.seen.Term {
		return
	}
	n := v.cluster
	n.life.Spawn(func() {
		ctx, cancel := context.WithTimeout(n.life, lookTimeout)
		defer cancel()
		n.commit(ctx, txn{ // Should it fail, the next one does it.
			If:   l.meta.unchanged(),
			Then: []clientv3.Op{clientv3.OpPut(n.keys.seen(), encode(seen{l.index, l.term}))},
		})
	})
}

// Note implements admit.Store. No lease of before counts: the memory has another name.
func (v *voting) Note(ctx context.Context, f admit.Facts) (bool, error) {
	l := f.State.(*looked)
	if err := v.oneCluster(ctx, l.cluster); err != nil {
		return false, err
	}
	if l.meta.mark == nil && f.Memory != "" {
		return v.quarantine(ctx, f, l)
	}
	n := v.cluster
	lost := mark{Format: format, Cluster: l.cluster, Memory: rand.Text(), Index: l.index, Term: l.term,
		Terms: f.Terms, Fresh: !f.Recorded, Cause: f.Cause}
	at, err := v.change(ctx, l, n.keys.notice(), lost,
		clientv3.OpDelete(n.keys.meta()), clientv3.OpDelete(n.keys.seen()), clientv3.OpDelete(n.keys.quarantine()))
	return at != 0, err
}

// quarantine begins to count. The etcd lease is asked for when the mark is gone for certain.
func (v *voting) quarantine(ctx context.Context, f admit.Facts, l *looked) (bool, error) {
	n := v.cluster
	_, c, err := n.pool.ready(ctx)
	if err != nil {
		return false, err
	}
	wait := admit.Quarantine(max(v.admission.Terms().MaxTTL, f.Terms.MaxTTL))
	wait = (wait + time.Second - 1).Truncate(time.Second)
	lease, err := grant(ctx, c, int64(wait/time.Second))
	if err != nil {
		return false, describe(ctx, err)
	}
	out := *l.notice.mark
	out.Wait = wait
	at, err := v.change(ctx, l, n.keys.notice(), out, clientv3.OpPut(n.keys.quarantine(), "", clientv3.WithLease(lease)))
	return at != 0, err
}

// Mark implements admit.Store. If the connection is newer than the facts, the store may have been
// set back since, to a state with the same notice. Then the store is looked at again. If that
// happened on the way, the mark is one of a memory that is lost.
func (v *voting) Mark(ctx context.Context, f admit.Facts, own admit.Terms, empty []string) (bool, error) {
	l := f.State.(*looked)
	n := v.cluster
	if err := v.oneCluster(ctx, l.cluster); err != nil {
		return false, err
	}
	if l.meta.mark != nil || l.notice.mark == nil || n.dials.Load() != l.dials {
		return false, nil
	}
	if f.Terms.Members == admit.AnyMembers {
		own.Members = f.Terms.Members
	}
	m := mark{Format: format, Cluster: l.cluster, Memory: l.notice.Memory, Index: l.index, Term: l.term, Terms: own,
		Empty: empty}
	at, err := v.change(ctx, l, n.keys.meta(), m, clientv3.OpDelete(n.keys.notice()),
		clientv3.OpDelete(n.keys.quarantine()))
	if err != nil || at == 0 {
		return false, err
	}
	if n.dials.Load() != l.dials {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.memories[m.Memory] = true
		return false, nil
	}
	v.votes(&standing{at, f.Server, m.Memory, own, l.dials, l.lives})
	return true, nil
}

// change writes a mark, and does more in the same step, if the marks are as they were read. It
// returns the revision of that, or 0.
func (v *voting) change(ctx context.Context, l *looked, key string, to mark, more ...clientv3.Op) (int64, error) {
	n := v.cluster
	a, err := n.commit(ctx, txn{
		If:   append(l.meta.unchanged(), l.notice.unchanged()...),
		Then: append(more, clientv3.OpPut(key, encode(to)), clientv3.OpPut(n.keys.stamp(), to.Memory)),
	})
	if err != nil || !a.Succeeded {
		return 0, err
	}
	return a.Header.Revision, nil
}
