package etcdnode

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// txn is one transaction of etcd's.
type txn struct {
	If   []clientv3.Cmp
	Then []clientv3.Op
	Else []clientv3.Op
}

// outcome is what etcd said to one, in the form that its answer has.
type outcome struct{ *clientv3.TxnResponse }

// send sends a transaction through a client of etcd's.
func (t txn) send(ctx context.Context, kv clientv3.KV) (outcome, error) {
	a, err := kv.Txn(ctx).If(t.If...).Then(t.Then...).Else(t.Else...).Commit()
	if err == nil && (a.Header == nil || !t.fits((*pb.TxnResponse)(a))) {
		err = errNonsense
	}
	return outcome{a}, err
}

// errNonsense is of a server that is broken, or none of etcd's: whether it has carried
// anything out is not known.
var errNonsense = errors.New("the answer is none of etcd's")

// fits reports whether an answer has one for each operation, of its kind. Who reads it
// need not ask, then.
func (t txn) fits(a *pb.TxnResponse) bool {
	ops := t.Then
	if !a.Succeeded {
		ops = t.Else
	}
	if len(a.Responses) != len(ops) {
		return false
	}
	for i, op := range ops {
		r, fits := a.Responses[i], false
		switch {
		case op.IsGet():
			fits = r.GetResponseRange() != nil
		case op.IsPut():
			fits = r.GetResponsePut() != nil
		case op.IsDelete():
			fits = r.GetResponseDeleteRange() != nil
		case op.IsTxn():
			var inner txn
			inner.If, inner.Then, inner.Else = op.Txn()
			fits = r.GetResponseTxn() != nil && inner.fits(r.GetResponseTxn())
		}
		if !fits {
			return false
		}
	}
	return true
}

// wrote reports whether anything was changed, which has given the store a new revision.
func (o outcome) wrote() bool { return wrote((*pb.TxnResponse)(o.TxnResponse)) }

func wrote(a *pb.TxnResponse) bool {
	return slices.ContainsFunc(a.Responses, func(r *pb.ResponseOp) bool {
		inner := r.GetResponseTxn()
		return r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0 || inner != nil && wrote(inner)
	})
}

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
		o, err := t.send(ctx, clientv3.NewKV(c))
		if err == nil {
			if o.wrote() {
				floor++ // what it has written is later than all that was heard of before
			}
			return o, n.voting.hear(o.Header, floor)
		}
		if hangs(err) || is(err, rpctypes.ErrGRPCNotSupportedForLearner) {
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
