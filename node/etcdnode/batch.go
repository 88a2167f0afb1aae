package etcdnode

import (
	"context"
	"slices"
	"time"

	"github.com/fenlock/fenlock/node/engine"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// batcher sends transactions about different names together, as parts of one, while others are
// under way. Raft and the disk then have one entry for all of them. One that is alone is sent at
// once, as it is.
//
// etcd makes all comparisons of a transaction, those of its parts included, before it
// writes anything. So parts that write the same keys must not travel together: a batch has each
// stripe once. What others wait for goes alone, and so does what is large.
type batcher struct {
	cluster *cluster
	lanes   engine.Lanes[*part]
}

const (
	mostFlying = 2
	mostParts  = 32 // of a few comparisons each; etcd allows 128 in all
	mostBytes  = 32 << 10
	// partsTimeout bounds a batch whose callers have no deadline.
	partsTimeout = 5 * time.Second
)

// part is a transaction that may be sent with others.
type part struct {
	txn
	stripe int
	under  *standing
	out    outcome
	err    error
}

func newBatcher(c *cluster) *batcher {
	b := &batcher{cluster: c}
	b.lanes = engine.Lanes[*part]{Life: c.life, Do: b.send, Most: mostFlying, Timeout: partsTimeout,
		Fits: func(batch []*part, p *part) bool {
			return len(batch) < mostParts && p.under == batch[0].under &&
				!slices.ContainsFunc(batch, func(other *part) bool { return other.stripe == p.stripe })
		}}
	return b
}

// commit is cluster.commit for a transaction that writes one stripe, if the store still votes:
// maybe with others.
func (b *batcher) commit(ctx context.Context, stripe int, under *standing, t txn, with bool) (outcome, error) {
	if !with || len(t.Then[0].ValueBytes()) > mostBytes {
		t.If = append(under.unchanged(b.cluster.keys), t.If...)
		return b.cluster.commit(ctx, t)
	}
	p := &part{txn: t, stripe: stripe, under: under}
	if err := b.lanes.Join(ctx, p); err != nil {
		return outcome{}, err
	}
	return p.out, p.err
}

// send sends a batch and hands out the answers.
func (b *batcher) send(ctx context.Context, batch []*part) {
	all := txn{If: batch[0].under.unchanged(b.cluster.keys)}
	if len(batch) == 1 {
		p := batch[0]
		p.If = append(all.If, p.If...)
		p.out, p.err = b.cluster.commit(ctx, p.txn)
		return
	}
	for _, p := range batch {
		all.Then = append(all.Then, clientv3.OpTxn(p.If, p.Then, p.Else))
	}
	o, err := b.cluster.commit(ctx, all)
	for i, p := range batch {
		if p.err = err; err == nil && !o.Succeeded {
			p.out = outcome{(*clientv3.TxnResponse)(&pb.TxnResponse{Header: o.Header})}
		} else if err == nil {
			answer := o.Responses[i].GetResponseTxn()
			p.out = outcome{(*clientv3.TxnResponse)(&pb.TxnResponse{
				Header: o.Header, Succeeded: answer.Succeeded, Responses: answer.Responses})}
		}
	}
}
