package etcdnode

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// atOnce is how many keys are read or written in one transaction. etcd allows 128 operations
// unless told otherwise.
const atOnce = 64

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

// fits reports whether an answer has one for each operation, of its kind. The reader need not check
// that, then.
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
