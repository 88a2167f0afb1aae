package etcdnode

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/fenlock/fenlock/node"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultPrefix is what the keys of a node begin with.
const DefaultPrefix = "/fenlock/"

// keys makes the keys of a node: it is their prefix.
type keys string

func (k keys) meta() string       { return string(k) + "meta" }
func (k keys) notice() string     { return string(k) + "notice" }
func (k keys) quarantine() string { return string(k) + "quarantine" }
func (k keys) seen() string       { return string(k) + "seen" }
func (k keys) stamp() string      { return string(k) + "stamp" }
func (k keys) leases() string     { return string(k) + "lease/" }

// lease returns the key of a name's lease. An escaped name begins with an escaped prefix
// of it exactly if the name begins with that, so leases are listed by range.
func (k keys) lease(name string) string { return k.leases() + url.PathEscape(name) }

func (k keys) leaseName(key string) (name string, ok bool) {
	escaped, ok := strings.CutPrefix(key, k.leases())
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(escaped)
	return name, err == nil
}

// register returns the key of the register of a stripe.
func (k keys) register(stripe int) string { return fmt.Sprintf("%sregister/%03x", string(k), stripe) }

func (k keys) registers() string { return string(k) + "register/" }

// queue returns what the keys of a name's waiters begin with, and queueEnd where they end.
func (k keys) queue(name string) string {
	return string(k) + "queue/" + url.PathEscape(name) + "/"
}

func (k keys) queueEnd(name string) string { return clientv3.GetPrefixRangeEnd(k.queue(name)) }

// waiter returns the key of a waiter: in the order of the stamps, then of the bytes.
func (k keys) waiter(name string, p node.Place) string {
	return fmt.Sprintf("%s%014x/%s", k.queue(name), p.Stamp, p.Waiter)
}

// place reads a waiter's key.
func (k keys) place(name, key string) (p node.Place, ok bool) {
	rest, ok := strings.CutPrefix(key, k.queue(name))
	stamp, waiter, found := strings.Cut(rest, "/")
	if !ok || !found || len(stamp) != 14 {
		return p, false
	}
	if _, err := fmt.Sscanf(stamp, "%x", &p.Stamp); err != nil {
		return p, false
	}
	p.Waiter = waiter
	return p, true
}

// wake returns the key by which a client is woken.
func (k keys) wake(client string) string { return string(k) + "wake/" + client }
