package etcdnode

import (
	"encoding/json"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// format is the version of the keys. A program that finds a larger one must not touch
// them: it does not know what they promise.
const format = 3

// mark is the value of the key meta, or of the key notice.
//
// In meta it is the mark of admission. Each write compares the revision of that key: where it is
// missing, or another one, the registers may be too, and the store promises nothing. The key stamp,
// which has the memory, is written in the same transaction, so it has the same revision. It has
// another one in a copy that was put back key by key.
//
// In notice it says that the store is out: it has lost its memory, or the prefix is new to it.
// Beside it is the key quarantine, attached to an etcd lease: while that is there, leases that were
// forgotten may live.
type mark struct {
	Format  int
	Cluster string // etcd's id of the cluster that it was written in
	Memory  string // another one after each loss
	// Where raft was when it was written. That never goes back while a cluster keeps its memory.
	Index, Term uint64

	Terms admit.Terms
	Empty []string `json:",omitempty"` // in meta: as in node.Registers

	Fresh bool       `json:",omitempty"` // in notice: nothing was recorded before
	Cause node.Cause `json:",omitempty"` // in notice
	// Wait is, in notice, the length of the etcd lease that was granted after the notice was there; 0
	// as long as none was.
	Wait time.Duration `json:",omitempty"`
}

// seen is how far raft was when a client looked last: meta is too old for that in a backup.
type seen struct{ Index, Term uint64 }

// kept is a mark as it was read. It is zero if the key is not there.
type kept struct {
	*mark
	key   string
	mod   int64  // the revision of the key
	value string // of the key
	lost  bool   // this client has heard that the memory is not whole any more
}

// readMark reads the key of a mark. Its error matches node.ErrMisconfigured.
func readMark(key string, kvs []*mvccpb.KeyValue) (k kept, err error) {
	if k.key = key; len(kvs) == 0 {
		return k, nil
	}
	k.mark, k.mod, k.value = new(mark), kvs[0].ModRevision, string(kvs[0].Value)
	switch err := decode(key, kvs[0].Value, k.mark); {
	case k.Format > format:
		return k, engine.Misconfiguredf(
			"the keys were made by a newer fenlock (format %d; this program knows %d): update this program", k.Format, format)
	case k.Format > 0 && k.Format < format:
		return k, olderFormat(k.Format)
	case err != nil || k.Format < 1 || k.Cluster == "" || k.Memory == "" || k.Terms.MaxTTL < 0 || k.Wait < 0:
		return k, engine.Misconfiguredf("%v: %s", errForeign, key)
	}
	return k, nil
}

// olderFormat is the error for what another version has left.
func olderFormat(of int) error {
	return engine.Misconfiguredf("the keys were made by an older fenlock (format %d; this program knows %d): "+
		"stop all clients, remove all keys below the prefix (etcdctl del --prefix), and start the clients: "+
		"tokens begin at their clocks then", of, format)
}

// unchanged is true as long as the key is as it was read. A cluster that was made anew with the
// same addresses counts its revisions anew; a copy that was put back has the same values.
func (k kept) unchanged() []clientv3.Cmp {
	if k.mark == nil {
		return []clientv3.Cmp{same(k.key, 0)}
	}
	return []clientv3.Cmp{same(k.key, k.mod),
		clientv3.Compare(clientv3.Value(k.key), "=", k.value)}
}

func decode(key string, value []byte, into any) error {
	if json.Unmarshal(value, into) != nil {
		return engine.Misconfiguredf("%v: %s", errForeign, key)
	}
	return nil
}

func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // they are plain
	}
	return string(text)
}
