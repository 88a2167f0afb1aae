package etcdnode

import (
	"github.com/fenlock/fenlock/node/cas"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultPrefix is what the keys of a node begin with.
const DefaultPrefix = "/fenlock/"

// keys makes the keys of a node: it is their prefix.
type keys string

func (k keys) meta() string             { return string(k) + "meta" }
func (k keys) notice() string           { return string(k) + "notice" }
func (k keys) quarantine() string       { return string(k) + "quarantine" }
func (k keys) seen() string             { return string(k) + "seen" }
func (k keys) stamp() string            { return string(k) + "stamp" }
func (k keys) stripes() string          { return string(k) + "stripe/" }
func (k keys) stripe(stripe int) string { return k.stripes() + cas.StripeKey(stripe) }
func (k keys) session(id string) string { return string(k) + "session/" + id }
func (k keys) wake(client string) string {
	return string(k) + "wake/" + client // a client that listens: what is written there it is told
}

// before are keys of format 1, which had one for each lease and each register.
func (k keys) before() string { return string(k) + "register/" }

// there and absent compare whether a key is there, and same whether it has a revision, 0 for none.
func there(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), ">", 0) }

func same(key string, mod int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", mod)
}
