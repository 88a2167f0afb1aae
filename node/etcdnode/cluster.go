package etcdnode

import (
	"context"
	"sync/atomic"

	"github.com/fenlock/fenlock/node/engine"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// cluster is what transactions are sent to.
type cluster struct {
	keys   keys
	given  bool // the client is the caller's
	pool   *pool
	dials  atomic.Int64 // connections that were made: the server behind a new connection is looked at
	voting *voting
	life   *engine.Lifetime
}

// commit sends a transaction, once, to a member that is connected. An error that does not
// match node.ErrNotSent leaves it open whether it was carried out.
func (c *cluster) commit(ctx context.Context, t txn) (outcome, error) {
	for renewed := false; ; renewed = true {
		m, client, err := c.pool.ready(ctx)
		if err != nil {
			return outcome{}, describe(ctx, err)
		}
		floor := c.voting.floor()
		o, err := t.send(ctx, clientv3.NewKV(client))
		if err == nil {
			c.pool.note(nil)
			if o.wrote() {
				floor++ // what it has written is later than all that was heard of before
			}
			return o, c.voting.hear(o.Header, floor)
		}
		if hangs(err) || is(err, rpctypes.ErrGRPCNotSupportedForLearner) {
			c.pool.leave(m)
		}
		if !renewed && tokenGone(err) {
			continue
		}
		return o, describe(ctx, err)
	}
}

// read carries out reads in one transaction, of what the majority has.
func (c *cluster) read(ctx context.Context, ops ...clientv3.Op) (outcome, error) {
	return c.commit(ctx, txn{Then: ops})
}

// responses returns the answers to reads that were in a transaction.
func responses(o outcome) []*clientv3.GetResponse {
	all := make([]*clientv3.GetResponse, len(o.Responses))
	for i, r := range o.Responses {
		all[i] = (*clientv3.GetResponse)(r.GetResponseRange())
	}
	return all
}
