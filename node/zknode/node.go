package zknode

import (
	"context"
	"net"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/zknode/internal/session"
	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// Node is one ZooKeeper ensemble. It implements node.Node, node.Queuer, node.Rejoiner, node.Admin,
// node.Examiner, node.Finisher and node.Ailing, and is safe for concurrent use. Make one with Open;
// the zero Node is not usable.
type Node struct {
	cas.Queued
	ensemble
	dials bool // by the caller's function
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
	_ node.Ailing   = (*Node)(nil)
)

// Option changes how Open sets up a node.
type Option func(*Node)

// WithDial has connections made by a function: for TLS, or through a tunnel. It gets
// host:port of one server, and returns soon after its context is done. A connection of its
// own for each call, which the node closes.
//
// A client of another library is not accepted. The leases depend on its session, which the owner
// may end, and only the owner is told what happens to the session.
func WithDial(dial func(ctx context.Context, address string) (net.Conn, error)) Option {
	return func(n *Node) { n.dial, n.dials = dial, true }
}

// Open returns the node at a URL:
//
//	zk://[user:password@]host[:2181][,host[:2181]...][/root][?passwordfile=/path]
//
// All servers of the ensemble are named, and everything is below the znode root, which is
// DefaultRoot if there is none. With a user and a password, which are escaped as in any URL, the
// znodes are made for that user alone (scheme digest); without, every client may change them. With
// passwordfile, the password is the only line of a file that only its owner may read (package
// secretfile). It is read anew for each connection, and only the user is before the @.
//
// Open sends nothing and connects to nothing: an ensemble that is down is no reason to
// fail. The error is about the URL, matches node.ErrInvalid, and contains no password.
func Open(rawURL string, with ...Option) (*Node, error) {
	where, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	n := &Node{ensemble: ensemble{location: where, dial: dialTCP, paths: paths{where.root},
		acl: wire.ACL{{Perms: wire.All, Scheme: "world", ID: "anyone"}}}}
	if n.digest != nil {
		n.acl = wire.ACL{{Perms: wire.All, Scheme: "auth"}}
	}
	for _, set := range with {
		set(n)
	}
	n.session = session.New(n.config(n.sessionTimeout, nil))
	s := store{&n.ensemble}
	n.Queued = cas.NewQueued(n, s, cas.Config{Kind: "zookeeper", Name: n.name, MaxRecord: maxRecord,
		Behind: true, Exact: true})
	n.admission = n.Admission()
	n.seen = cas.NewClock(s, n.Life(), n.ended, nil)
	return n, nil
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Member returns what all clients of the node's group call it: the servers, sorted, and the
// root.
func (n *Node) Member() string { return n.member }

// Location implements node.Located: the URL without user and password or,
// where the caller dials, n.
func (n *Node) Location() any {
	if n.dials {
		return n
	}
	return place{n.name, n.member}
}

// Ails implements node.Ailing.
func (n *Node) Ails() error { return n.session.Ails() }

// place is where a node's leases are, for all that a process knows.
type place struct{ name, member string }

// Finish implements node.Finisher: nothing waits any more for a connection, or an admission.
func (n *Node) Finish() {
	n.session.Finish()
	n.Queued.Finish()
}

// Close ends the connections. Operations under way fail, with an unknown outcome, and no
// waiter of this client is notified any more. Leases that have been granted and not released
// stay for their TTL at least: the session is then left to end by itself. A second Close
// does nothing.
func (n *Node) Close() error {
	n.Queued.Close()
	n.session.Close(!n.seen.Close())
	return nil
}

// Inspect implements node.Admin, by what the leader had committed.
func (n *Node) Inspect(ctx context.Context, name string) (node.Lease, error) {
	n.sync(ctx)
	return n.Queued.Inspect(ctx, name)
}

// Waiting implements node.Admin, by what the leader had committed.
func (n *Node) Waiting(ctx context.Context, name string, limit int) (first []node.Waiter, all int, err error) {
	n.sync(ctx)
	return n.Queued.Waiting(ctx, name, limit)
}
