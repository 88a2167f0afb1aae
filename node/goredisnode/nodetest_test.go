package goredisnode_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/goredisnode"
	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/nodetest"
	"github.com/redis/go-redis/v9"
)

// Each kind of server speaks both protocols. One for each is enough: the suite takes a
// while, and counts the goroutines of the process, so that it runs alone.
func TestConformance(t *testing.T) {
	protocol := map[testserver.Kind]int{testserver.Valkey: 3, testserver.Redis: 2}
	testserver.Each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		opened := 0
		nodetest.Run(t, func(t *testing.T) nodetest.Harness {
			// A prefix of its own is an empty store, and quicker than a server.
			opened++
			prefix := fmt.Sprintf("test-%d:", opened)
			server.MarkAdmitted(prefix, time.Hour)
			rules, err := respnode.Permissions(prefix)
			if err != nil {
				t.Fatal(err)
			}
			server.Do(append([]string{"ACL", "SETUSER", "default", "resetkeys", "resetchannels", "-@all"}, rules...)...)
			open := func() node.Node {
				n := open(t, clientOf(t, server.Addr(), func(o *redis.Options) { o.Protocol = protocol[kind] }),
					goredisnode.WithPrefix(prefix))
				if err := n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Hour}); err != nil {
					t.Fatal(err)
				}
				return n
			}
			return nodetest.Harness{Node: open(), Other: open(), Wait: time.Sleep}
		})
	})
}
