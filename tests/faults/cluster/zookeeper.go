//go:build linux

package cluster

import (
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/tests/faults/library"
)

// ZooKeeper is an ensemble of one server. Its wall clock decides nothing but the order of
// waiters. All clients have to name it by the same address, so the way through a
// proxy is the harness's own addition to the URL.
var ZooKeeper = &Engine{
	Name: "zookeeper", TTL: 2 * time.Second, Lingers: 8 * time.Second, preloads: true,
	start: func(t testing.TB, _ Persistence, environment []string) Server {
		return &zookeeper{testserver.StartZooKeeperWith(t, environment), t}
	},
	url: func(server, through string, _ int) string { return "zk://" + server + library.Via + through },
}

// zookeeper is a server of ZooKeeper.
type zookeeper struct {
	*testserver.ZooKeeper
	t testing.TB
}

func (z *zookeeper) Restart() {
	if err := z.Begin(); err != nil {
		z.t.Fatal(err)
	}
}
