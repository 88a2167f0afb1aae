package library

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/bucketnode"
	"github.com/fenlock/fenlock/node/etcdnode"
	"github.com/fenlock/fenlock/node/filenode"
	"github.com/fenlock/fenlock/node/mysqlnode"
	"github.com/fenlock/fenlock/node/natsnode"
	"github.com/fenlock/fenlock/node/pgnode"
	"github.com/fenlock/fenlock/node/valkeynode"
	"github.com/fenlock/fenlock/node/zknode"
)

// Via divides a URL whose address is also the node's name from the address by which this
// client reaches it.
const Via = "?via="

// OpenNode opens a node of any engine.
func OpenNode(url string) (node.Node, error) {
	scheme, _, _ := strings.Cut(url, "://")
	switch scheme {
	case "valkey", "redis", "valkey-cluster", "valkey-sentinel":
		return valkeynode.Open(url)
	case "file":
		return filenode.Open(url)
	case "postgres":
		return pgnode.Open(url)
	case "mysql":
		return mysqlnode.Open(url)
	case "s3":
		return bucketnode.Open(url)
	case "nats":
		return natsnode.Open(url)
	case "etcd":
		return etcdnode.Open(url)
	case "zk":
		url, through, _ := strings.Cut(url, Via)
		return zknode.Open(url, zknode.WithDial(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", through)
		}))
	}
	return nil, fmt.Errorf("unknown scheme %q", scheme)
}
