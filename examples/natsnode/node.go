package natsnode

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is a node.Node, node.Admin and node.Rejoiner in a bucket. It is safe for concurrent use, by
// several processes too. Make one with Open; the zero Node is not usable.
type Node struct {
	config    Config
	name      string
	js        jetstream.JetStream
	stream    jetstream.Stream
	admission *admit.Admission

	life *engine.Lifetime
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
	n := &Node{config: c, name: c.Bucket, life: engine.NewLifetime()}
	if err := c.check(nc); err != nil {
		return nil, n.errorf("open", err)
	}
	// An address without a user, password or token, which a URL may have.
	n.name = fmt.Sprintf("%s at %s", c.Bucket, nc.ConnectedAddr())
	if err := n.open(ctx, nc); err != nil {
		return nil, n.errorf("open", err)
	}
	n.admission = admit.New(n, store{n}, admit.Pause)
	return n, nil
}

func (n *Node) open(ctx context.Context, nc *nats.Conn) (err error) {
	if n.js, err = jetstream.New(nc); err != nil {
		return err
	}
	if n.stream, err = n.js.Stream(ctx, n.config.stream()); err != nil {
		return configuration(err)
	}
	_, err = n.look(ctx)
	return err
}

// now is what the server that leads the stream says of it.
type now struct {
	clock   time.Duration // the server's
	server  string        // as in node.Registers
	created time.Time     // another one: the bucket was made anew
	last    uint64        // the revision of the last write
	stripes bool          // maybe there are records, see store.Facts
}

// look returns the time, and what the bucket is, or why it is not what it has to be.
func (n *Node) look(ctx context.Context, opts ...jetstream.StreamInfoOpt) (now, error) {
	info, err := n.stream.Info(ctx, opts...)
	if err != nil {
		return now{}, configuration(err)
	}
	if err := n.config.refuse(info.Config); err != nil {
		return now{}, err
	}
	if info.TimeStamp.IsZero() {
		return now{}, fmt.Errorf("%w: the server does not tell its time; it has to be NATS 2.10 or later", node.ErrMisconfigured)
	}
	at := now{time.Duration(info.TimeStamp.UnixNano()), fmt.Sprint(n.config.Bucket, " ", info.Config.FirstSeq), info.Created, info.State.LastSeq, false}
	for subject := range info.State.Subjects {
		_, ours := n.config.stripe(subject)
		at.stripes = at.stripes || ours
	}
	return at, nil
}

// String returns the bucket and the address of the server that it was opened at.
func (n *Node) String() string { return n.name }

// Member returns what all clients of a group call the node: they may be connected to different
// servers of one cluster.
func (n *Node) Member() string { return "natsnode:" + n.config.Bucket }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Close ends the operations that are under way, whose outcome is unknown then, and waits
// for them. The connection stays open. It always returns nil.
func (n *Node) Close() error {
	n.admission.Close()
	n.life.End()
	n.life.Wait()
	return nil
}

func (n *Node) errorf(what string, err error) error {
	return engine.Named("natsnode "+n.name, what, err)
}
