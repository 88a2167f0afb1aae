package etcdnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fenlock/fenlock/node"

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

	mu     sync.Mutex
	flying int
	queue  []*part
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
	ctx    context.Context
	stripe int
	under  *standing
	done   chan struct{}
	sent   bool
	out    outcome
	err    error
}

// commit is cluster.commit for a transaction that writes one stripe, if the store still votes:
// maybe with others.
func (b *batcher) commit(ctx context.Context, stripe int, under *standing, t txn, with bool) (outcome, error) {
	alone := t
	alone.If = append(under.unchanged(b.cluster.keys), t.If...)
	if !with || len(t.Then[0].ValueBytes()) > mostBytes {
		return b.cluster.commit(ctx, alone)
	}
	b.mu.Lock()
	if b.flying < mostFlying {
		b.flying++
		b.mu.Unlock()
		defer b.next()
		return b.cluster.commit(ctx, alone)
	}
	p := &part{txn: t, ctx: ctx, stripe: stripe, under: under, done: make(chan struct{})}
	b.queue = append(b.queue, p)
	b.mu.Unlock()
	select {
	case <-p.done:
		return p.out, p.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.sent {
		return outcome{}, ctx.Err()
	}
	b.queue = slices.DeleteFunc(b.queue, func(q *part) bool { return q == p })
	return outcome{}, node.NotSent(ctx.Err())
}

// next sends what has come meanwhile.
func (b *batcher) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.take()
	if len(batch) == 0 {
		b.flying--
		return
	}
	err := b.cluster.life.Spawn(func() {
		defer b.next()
		b.send(batch)
	})
	if err != nil {
		b.flying--
		for _, p := range append(batch, b.queue...) {
			p.err = node.NotSent(err)
			close(p.done)
		}
		b.queue = nil
	}
}

// take takes from the queue what can travel together.
func (b *batcher) take() (batch []*part) {
	stripes := map[int]bool{}
	b.queue = slices.DeleteFunc(b.queue, func(p *part) bool {
		if len(batch) == mostParts || stripes[p.stripe] || len(batch) > 0 && p.under != batch[0].under {
			return false
		}
		stripes[p.stripe] = true
		p.sent = true
		batch = append(batch, p)
		return true
	})
	return batch
}

// send sends a batch and hands out the answers. The time of the most patient caller
// counts; the others have left then.
func (b *batcher) send(batch []*part) {
	until := time.Time{}
	for _, p := range batch {
		deadline, ok := p.ctx.Deadline()
		if !ok {
			deadline = time.Now().Add(partsTimeout)
		}
		if deadline.After(until) {
			until = deadline
		}
	}
	ctx, cancel := context.WithDeadline(b.cluster.life, until)
	defer cancel()
	all := txn{If: batch[0].under.unchanged(b.cluster.keys)}
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
		close(p.done)
	}
}
