package etcdnode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/rule"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// format is the version of the keys. A program that finds a larger one must not touch
// them: it does not know what they promise.
const format = 1

// meta is the mark of admission, and what all clients of a group agree on. Each
// operation compares the revision of its key: where it is missing, or another one, the
// registers may be too, and nobody votes.
type meta struct {
	Format  int      `json:"format"`
	Cluster string   `json:"cluster"` // etcd's id of the cluster that was admitted
	Memory  string   `json:"memory"`  // another one after each loss
	Index   uint64   `json:"index"`   // raft's, which never goes back while a cluster keeps its memory
	Term    uint64   `json:"term"`
	MaxTTL  string   `json:"max_ttl"`
	Members []string `json:"members"`
	Empty   []string `json:"empty,omitempty"` // as in node.Registers
}

// notice is the word that a cluster has lost its memory, or that the prefix is new to it.
// Beside it is another key, attached to an etcd lease: while that is there, leases that
// were forgotten may live.
type notice struct {
	Format  int      `json:"format"`
	Cluster string   `json:"cluster"`
	Memory  string   `json:"memory"`
	Fresh   bool     `json:"fresh"` // nothing was recorded before
	MaxTTL  string   `json:"max_ttl,omitempty"`
	Members []string `json:"members,omitempty"`
}

// seen is how far raft was when somebody looked last: meta is too old for that in a
// backup.
type seen struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// facts is what was read of a store.
type facts struct {
	cluster     string
	index, term uint64
	meta        *meta
	metaMod     int64
	notice      *notice
	noticeMod   int64
	quarantined bool
	lease       int64 // of the quarantine
	seen        seen
	status      *clientv3.StatusResponse // of the member that was asked
}

// verdict of facts.
type standing uint8

const (
	admitted    standing = iota
	unnoticed            // the loss has to be written down
	quarantined          // forgotten leases may live
	unbuilt              // the registers have to be rebuilt
)

// judge tells what is to be done with a store, in which the memory lost is known not to
// be whole any more. It is decided without I/O.
func (f facts) judge(lost string) standing {
	switch {
	case f.kept(lost):
		return admitted
	case f.meta != nil, f.notice == nil, f.notice.Cluster != f.cluster:
		return unnoticed
	case f.quarantined:
		return quarantined
	}
	return unbuilt
}

// kept reports whether the store remembers all since it was admitted. One that was set
// back to a backup is another cluster, unless its members have the same addresses and
// the same token; then raft has begun anew.
func (f facts) kept(lost string) bool {
	return f.meta != nil && f.meta.Cluster == f.cluster && f.meta.Memory != lost &&
		f.index >= max(f.meta.Index, f.seen.Index) && f.term >= max(f.meta.Term, f.seen.Term)
}

// because says why the store is out.
func (f facts) because() string {
	switch {
	case f.meta == nil && (f.notice == nil || f.notice.Fresh):
		return "its registers are not there: its data was deleted, or this group or prefix is new to it"
	case f.meta == nil:
		return "it was restored from a backup or made anew, and may have forgotten leases"
	case f.meta.Cluster != f.cluster:
		return "it is another cluster than the one that was admitted: restored from a backup, perhaps"
	}
	return "it was set back to an earlier state, and may have forgotten leases"
}

// terms is what is recorded of the group, "" and none if nothing is.
func (f facts) terms() (maxTTL string, members []string) {
	switch {
	case f.meta != nil:
		return f.meta.MaxTTL, f.meta.Members
	case f.notice != nil:
		return f.notice.MaxTTL, f.notice.Members
	}
	return "", nil
}

// check refuses a client that disagrees with what is recorded.
func (f facts) check(own group) error {
	maxTTL, members := f.terms()
	if maxTTL != "" && maxTTL != own.MaxTTL.String() {
		return misconfigured("the longest lease of the group (MaxTTL) is %s for those who use this node, and %v for this client: all have to agree", maxTTL, own.MaxTTL)
	}
	if len(members) > 0 && !slices.Equal(members, own.members) {
		return misconfigured("the group has the nodes %q for those who use this node, and %q for this client: all have to name the same ones (the parameter name says what a node is called; alone is a cluster without other nodes)",
			strings.Join(members, " "), strings.Join(own.members, " "))
	}
	return nil
}

// longest returns the longest lease that may be out there.
func (f facts) longest(own time.Duration) time.Duration {
	recorded, _ := f.terms()
	d, _ := time.ParseDuration(recorded)
	return max(own, d)
}

// quarantine is how long a store that may have forgotten leases stays out.
func quarantine(maxTTL time.Duration) time.Duration { return maxTTL + rule.Drift(maxTTL) }

func decode(kv *mvccpb.KeyValue, into any, version func() int) error {
	if err := json.Unmarshal(kv.Value, into); err != nil {
		return fmt.Errorf("%w: %s", errForeign, kv.Key)
	}
	if v := version(); v > format {
		return misconfigured("the keys were made by a newer fenlock (format %d; this program knows %d): update this program", v, format)
	} else if v < 1 {
		return fmt.Errorf("%w: %s", errForeign, kv.Key)
	}
	return nil
}

func encode(record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // they are plain
	}
	return string(text)
}
