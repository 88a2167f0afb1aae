package etcdnode

import (
	"context"
	"fmt"
	"strconv"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node/engine"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// guardPrefix begins the keys where a Guard keeps tokens.
const guardPrefix = "fenlock-token/"

// Guard carries out writes in etcd, and refuses those of a holder that is not the newest.
// The cluster is where the data is; it need not be a node. Safe for concurrent use.
//
// The largest token seen for a resource is kept in a key of its own, "fenlock-token/" and the
// resource, with no etcd lease. If the key is removed, every token passes again. Writes that do not
// go through a Guard are not checked, and a cluster that is set back to a backup forgets tokens
// too.
type Guard struct {
	// Refused is told of each write that is refused for its token, before Do returns; ctx is Do's.
	// Nil: nothing is called. It is set before the Guard is used, and must be safe for concurrent use.
	Refused func(ctx context.Context, e *fence.StaleError)

	kv clientv3.KV
}

// NewGuard returns a guard for what a client writes. The client stays the caller's. A
// namespaced KV in client.KV is used as it is: it has its own tokens then.
func NewGuard(client *clientv3.Client) (*Guard, error) {
	if client == nil || client.KV == nil {
		return nil, engine.Invalidf("etcdnode: the client is none that clientv3.New has made")
	}
	return &Guard{kv: client.KV}, nil
}

// Do carries out operations, in one transaction, if token is at least the largest token that was
// seen for the resource, and remembers it. With no operations it does so too: that is how a new
// holder shuts out the previous holder before it reads what it will write. The answers are in the
// order of the operations. Otherwise the error is a *fence.StaleError and nothing was done.
// Operations that etcd does not accept together (two that write one key) are its error.
//
// Any other error leaves it open whether they were carried out, unless it matches
// fence.ErrInvalidToken or node.ErrInvalid. To call Do again with the same token is safe if
// the operations may be carried out twice.
func (g *Guard) Do(ctx context.Context, resource string, token fence.Token, ops ...clientv3.Op) ([]clientv3.OpResponse,
	error) {
	if !token.Valid() {
		return nil, fmt.Errorf("%w: %d", fence.ErrInvalidToken, uint64(token))
	}
	if resource == "" {
		return nil, engine.Invalidf("etcdnode: the resource is empty")
	}
	record := guardPrefix + resource
	for _, op := range ops {
		if string(op.KeyBytes()) == record && !op.IsGet() {
			return nil, engine.Invalidf("etcdnode: the key %q is where the guard keeps the token", record)
		}
	}
	all := append([]clientv3.Op{clientv3.OpPut(record, formatToken(token))}, ops...)
	a, err := txn{
		If:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(record), "=", 0)},
		Then: all,
		Else: []clientv3.Op{clientv3.OpTxn(
			[]clientv3.Cmp{
				clientv3.Compare(clientv3.Value(record), ">", formatToken(0)), // less was written by hand
				clientv3.Compare(clientv3.Value(record), "<", formatToken(token+1)),
			},
			all, []clientv3.Op{clientv3.OpGet(record)})},
	}.send(ctx, g.kv)
	if err != nil {
		return nil, fmt.Errorf("etcd guard: %w", err)
	}
	done, answers := a.Succeeded, a.Responses
	if !done {
		inner := answers[0].GetResponseTxn()
		done, answers = inner.Succeeded, inner.Responses
	}
	if done {
		var all []clientv3.OpResponse
		for i := range answers[1:] {
			switch r := answers[i+1]; {
			case r.GetResponseRange() != nil:
				all = append(all, (*clientv3.GetResponse)(r.GetResponseRange()).OpResponse())
			case r.GetResponsePut() != nil:
				all = append(all, (*clientv3.PutResponse)(r.GetResponsePut()).OpResponse())
			case r.GetResponseDeleteRange() != nil:
				all = append(all, (*clientv3.DeleteResponse)(r.GetResponseDeleteRange()).OpResponse())
			default:
				all = append(all, (*clientv3.TxnResponse)(r.GetResponseTxn()).OpResponse())
			}
		}
		return all, nil
	}
	kvs := answers[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return nil, fmt.Errorf("etcd guard: %w", errNonsense)
	}
	newest, err := parseToken(kvs[0].Value)
	if err != nil || newest <= token {
		return nil, fmt.Errorf(
			"etcd guard: the key %q has no token: it was changed by hand, and every write is refused until it is removed",
			record)
	}
	stale := &fence.StaleError{Resource: resource, Token: token, Newest: newest}
	if g.Refused != nil {
		g.Refused(ctx, stale)
	}
	return nil, stale
}

// A token is written with as many digits as the largest, so that etcd compares tokens as numbers
// when it compares their bytes.
func formatToken(t fence.Token) string { return fmt.Sprintf("%014x", uint64(t)) }

func parseToken(value []byte) (fence.Token, error) {
	n, err := strconv.ParseUint(string(value), 16, 63)
	if err != nil || len(value) != 14 || n > uint64(fence.MaxToken) {
		return 0, fmt.Errorf("%w: a token is %.40q", errForeign, value)
	}
	return fence.Token(n), nil
}
