package valkeynode

import (
	"cmp"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode"
)

// Node is one Valkey or Redis primary. It implements node.Node, node.Queuer,
// node.Rejoiner, node.Admin, node.Examiner, node.Ordered and node.Finisher, and is safe for concurrent use.
type Node struct{ *engine }

// engine is the engine over any client library: what a Node can do is there.
type engine = respnode.Node

var (
	_ node.Ordered  = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
)

// Open returns the node at a URL:
//
//	valkey://[user:password@]host[:6379][/db]    also redis://
//	valkeys://...                                TLS, also rediss://
//	unix:///path/to/socket
//
// TLS verifies the server's certificate against the system's roots, or against
// the PEM file that the parameter ca names; cert and key name the client's own, and
// servername the name that the server's is for. The parameter passwordfile names a file
// that has the password in its only line, and that nobody else may read. These files are
// read anew for each connection. All clients of a group name the same nodes, by host, port and database; where they reach
// a server by different addresses, the parameter name says what it is called.
//
// Open sends nothing and connects to nothing: a server that is down is no reason
// to fail. The error is about the URL, matches node.ErrInvalid, and
// contains no password.
func Open(rawURL string, with ...Option) (*Node, error) {
	o := apply(with)
	server, conn, known, err := o.connect(rawURL)
	if err != nil {
		return nil, err
	}
	known.Member, known.Prefix, known.TLS = server.Member, o.prefix, server.TLS != nil
	known.User, known.AnyUser = cmp.Or(server.Option.Username, "default"), o.credentials != nil
	known.Password = server.Option.Password != "" || server.Credentials != nil
	n, err := respnode.New(conn, known)
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}
