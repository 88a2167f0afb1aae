package etcdnode

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// txn is one transaction of etcd's.
type txn struct {
	If   []clientv3.Cmp
	Then []clientv3.Op
	Else []clientv3.Op
}

// outcome is what etcd said to one.
type outcome struct{ *clientv3.TxnResponse }

// commit sends a transaction, once, to a member that is connected. An error that does not
// match node.ErrNotSent leaves it open whether it was carried out.
func (n *Node) commit(ctx context.Context, t txn) (outcome, error) {
	for renewed := false; ; renewed = true {
		m, err := n.pool.ready(ctx)
		if err != nil {
			return outcome{}, describe(ctx, err)
		}
		c, err := m.open(ctx)
		if err != nil {
			return outcome{}, describe(ctx, err)
		}
		floor := n.voting.floor()
		var o outcome
		kv := clientv3.NewKV(c)
		o.TxnResponse, err = kv.Txn(ctx).If(t.If...).Then(t.Then...).Else(t.Else...).Commit()
		if err == nil {
			return o, n.voting.hear(o.Header, floor)
		}
		if hangs(err) {
			n.pool.leave(m)
		}
		if !renewed && tokenGone(err) {
			continue
		}
		if is(err, rpctypes.ErrGRPCLeaseNotFound) {
			return o, errNoLease
		}
		return o, describe(ctx, err)
	}
}

// read carries out reads in one transaction, of what the majority has.
func (n *Node) read(ctx context.Context, ops ...clientv3.Op) (outcome, error) {
	return n.commit(ctx, txn{Then: ops})
}
