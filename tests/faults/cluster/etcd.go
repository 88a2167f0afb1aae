//go:build linux

package cluster

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// Etcd is an etcd cluster of one member. It is a static program, whose clock no library
// can move; and it has none that decides: it counts leases by a monotonic one.
var Etcd = &Engine{
	Name: "etcd", TTL: 2 * time.Second, Lingers: 5 * time.Second,
	start: func(t testing.TB, _ Persistence, _ []string) Server {
		all := testserver.StartEtcd(t, 1)
		return etcd{all.Members[0], all, t}
	},
	url: func(_, through string, node int) string { return fmt.Sprintf("etcd://%s?name=%d", through, node) },
}

// etcd is the only member of a cluster.
type etcd struct {
	*testserver.EtcdMember
	all *testserver.Etcd
	t   testing.TB
}

func (e etcd) Restart() { e.all.Start(e.EtcdMember) }

// Wipe deletes the data of a server that is down: it begins a cluster of the same id.
func (e etcd) Wipe() {
	if err := os.RemoveAll(e.Data()); err != nil {
		e.t.Fatal(err)
	}
}
