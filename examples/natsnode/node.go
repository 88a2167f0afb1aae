package natsnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fenlock/fenlock/node"
)

var errClosed = errors.New("the node is closed")

// Node is a node.Node and node.Admin in a bucket. It is safe for concurrent use, by
// several processes too. Make one with Open; the zero Node is not usable.
type Node struct {
	config  Config
	name    string
	js      jetstream.JetStream
	stream  jetstream.Stream
	created time.Time // the bucket: another one has forgotten everything

	life  context.Context // done with Close
	end   context.CancelFunc
	mu    sync.Mutex // orders begun.Add before begun.Wait
	begun sync.WaitGroup
}

var _ node.Admin = (*Node)(nil)

// Open opens the node in a bucket that Create has made. The connection stays the
// caller's, who closes it after the node; it has to be made with
// nats.ReconnectBufSize(-1), and should reconnect for ever (nats.MaxReconnects(-1)). A
// bucket, a connection or a Config that cannot be used is an error that matches
// node.ErrMisconfigured or node.ErrInvalid.
func Open(ctx context.Context, nc *nats.Conn, c Config) (*Node, error) {
	n := &Node{config: c, name: c.Bucket}
	if err := c.check(nc); err != nil {
		return nil, n.errorf("open", err)
	}
	// An address without a user, password or token, which a URL may have.
	n.name = fmt.Sprintf("%s at %s", c.Bucket, nc.ConnectedAddr())
	n.life, n.end = context.WithCancel(context.Background())
	err := n.open(ctx, nc)
	if err != nil {
		n.end()
		return nil, n.errorf("open", err)
	}
	return n, nil
}

func (n *Node) open(ctx context.Context, nc *nats.Conn) (err error) {
	if n.js, err = jetstream.New(nc); err != nil {
		return err
	}
	if n.stream, err = n.js.Stream(ctx, n.config.stream()); err != nil {
		return configuration(err)
	}
	n.created = n.stream.CachedInfo().Created
	_, err = n.clock(ctx)
	return err
}

// clock returns the time of the server that leads the stream, or why the bucket is not
// what it has to be.
func (n *Node) clock(ctx context.Context) (time.Duration, error) {
	info, err := n.stream.Info(ctx)
	if err != nil {
		return 0, configuration(err)
	}
	switch err := n.config.refuse(info.Config); {
	case err != nil:
		return 0, err
	case !info.Created.Equal(n.created):
		return 0, fmt.Errorf("%w: the bucket was deleted and made anew at %v, and has forgotten who has which lock; stop all programs that use it for the longest TTL, then open it again", node.ErrMisconfigured, info.Created)
	case info.TimeStamp.IsZero():
		return 0, fmt.Errorf("%w: the server does not tell its time; it has to be NATS 2.10 or later", node.ErrMisconfigured)
	}
	return time.Duration(info.TimeStamp.UnixNano()), nil
}

// String returns the bucket and the address of the server that it was opened at.
func (n *Node) String() string { return n.name }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Close ends the operations that are under way, whose outcome is unknown then, and waits
// for them. The connection stays open. It always returns nil.
func (n *Node) Close() error {
	n.mu.Lock()
	n.end()
	n.mu.Unlock()
	n.begun.Wait()
	return nil
}

// begin returns a context for one operation, that is done with Close too. The operation has
// to call done at its end.
func (n *Node) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life.Err() != nil {
		return nil, nil, errClosed
	}
	n.begun.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.life, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil); n.begun.Done() }, nil
}

func (n *Node) errorf(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("natsnode %s: %s: %w", n.name, what, err)
}
