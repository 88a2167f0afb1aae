package command

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/rule"
)

// DefaultPrefix is put before a lock's name to make its key.
const DefaultPrefix = "fenlock:"

// The keys that are not leases: a group's registers, and the queues of those who
// wait for a lock. No lock may have a key that begins with one of these. They are
// part of the format on the servers, whatever the code calls what they hold.
const (
	registersPrefix = "fenlock-registers:"
	queuePrefix     = "fenlock-line:"
)

// reserved returns which of the prefixes above a key begins with, or "".
func reserved(key string) string {
	for _, prefix := range [...]string{registersPrefix, queuePrefix} {
		if strings.HasPrefix(key, prefix) {
			return prefix
		}
	}
	return ""
}

// tokenPrefix begins the key that remembers the largest token of a guarded key.
const tokenPrefix = "fenlock-token:"

// GuardKey returns the key that remembers the largest token of a key, or why that cannot be
// guarded. It is fenlock's own then, of a guard, or of a node on the same server.
func GuardKey(key string) (string, error) {
	for _, prefix := range [...]string{tokenPrefix, registersPrefix, queuePrefix, DefaultPrefix} {
		if strings.HasPrefix(key, prefix) {
			return "", engine.Invalidf("the key %.60q begins with %q, where fenlock keeps its own: a guard does not write there",
				key, prefix)
		}
	}
	return tokenPrefix + key, nil
}

// Keys names what a group of locks has on a server, and makes the commands about
// it. Safe for concurrent use.
type Keys struct {
	prefix    string
	registers string
	mayMeet   bool // a lock's key may begin with a reserved prefix
	clustered bool // they are all in one slot of a cluster
	lastTTL   atomic.Pointer[ttlText]
}

// NewKeys returns the keys of the locks with a prefix.
func NewKeys(prefix string) (*Keys, error) {
	if meets := reserved(prefix); meets != "" {
		return nil, engine.Invalidf("the prefix %q begins with %q, which is reserved", prefix, meets)
	}
	mayMeet := strings.HasPrefix(registersPrefix, prefix) || strings.HasPrefix(queuePrefix, prefix)
	return &Keys{prefix: prefix, registers: registersPrefix + prefix, mayMeet: mayMeet}, nil
}

// InCluster has the keys be those of a node that is a cluster. It returns k.
func (k *Keys) InCluster() *Keys {
	k.clustered = true
	return k
}

// Clustered reports whether they are those of a node that is a cluster.
func (k *Keys) Clustered() bool { return k.clustered }

// Check returns why a request must not be sent, or nil.
func (k *Keys) Check(r *node.Request) (err error) {
	if err = rule.CheckShared(*r); err != nil {
		return err
	}
	if k.mayMeet {
		_, err = k.lease(r.Name)
	}
	return err
}

// lease returns the key of a lock. It never meets the registers' key or a queue's.
func (k *Keys) lease(name string) (string, error) {
	key := k.prefix + name
	if meets := reserved(key); meets != "" {
		return "", engine.Invalidf("the lock's key %.60q begins with %q, which is reserved", key, meets)
	}
	return key, nil
}

// ttlText is a duration and its text: nearly all are the same.
type ttlText struct {
	d    time.Duration
	text string
}
