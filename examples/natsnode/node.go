package natsnode

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// Node is a node.Node, node.Admin and node.Rejoiner in a bucket. It is safe for concurrent use, by
// several processes too. Make one with Open; the zero Node is not usable.
type Node struct {
	*cas.Node
	keys *keys
}

var (
	_ node.Admin    = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
)

// Open opens the node in a bucket that Create has made. The connection stays the
// caller's, who closes it after the node; it has to be made with
// nats.ReconnectBufSize(-1), and should reconnect for ever (nats.MaxReconnects(-1)). A
// bucket, a connection or a Config that cannot be used is an error that matches
// node.ErrMisconfigured or node.ErrInvalid.
func Open(ctx context.Context, nc *nats.Conn, c Config) (*Node, error) {
	b, err := openKeys(ctx, nc, c)
	if err != nil {
		return nil, fmt.Errorf("natsnode %s: open: %w", c.Bucket, err)
	}
	n := &Node{keys: b}
	// An address without a user, password or token, which a URL may have.
	name := fmt.Sprintf("%s at %s", c.Bucket, nc.ConnectedAddr())
	n.Node = cas.New(n, cas.Marked(b),
		cas.Config{Kind: "natsnode", Name: name, MaxRecord: int(nc.MaxPayload()) - headroom})
	return n, nil
}

// headroom is what a message has beside the leases of a record: its own head, and the headers of a
// write.
const headroom = 1 << 10

func openKeys(ctx context.Context, nc *nats.Conn, c Config) (b *keys, err error) {
	if err := c.check(nc); err != nil {
		return nil, err
	}
	b = &keys{config: c}
	if b.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if b.stream, err = b.js.Stream(ctx, c.stream()); err != nil {
		return nil, configuration(err)
	}
	_, err = b.Look(ctx)
	return b, err
}

// Member returns what all clients of a group call the node: they may be connected to different
// servers of one cluster.
func (n *Node) Member() string { return "natsnode:" + n.keys.config.Bucket }
