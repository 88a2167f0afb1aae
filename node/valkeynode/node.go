package valkeynode

import (
	"cmp"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/valkeynode/internal/admission"
	"github.com/fenlock/fenlock/node/valkeynode/internal/command"
	"github.com/fenlock/fenlock/node/valkeynode/internal/transport"
)

// Node is one Valkey or Redis primary. It implements node.Node, node.Queuer,
// node.Rejoiner, node.Admin, node.Examiner, node.Ordered and node.Finisher, and is safe for concurrent use.
type Node struct {
	errors    command.Errors
	member    string // the node's name in its group
	access    access
	keys      *command.Keys
	conn      *transport.Conn
	voting    *admission.Voting
	pipelines *transport.Pipelines
}

var (
	_ node.Ordered  = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
)

// access is how the node comes to its server.
type access struct {
	user     string
	any      bool // a function says who it is, for each connection
	password bool
	tls      bool
}

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
	keys, err := command.NewKeys(o.prefix)
	if err != nil {
		return nil, err
	}
	server, conn, errors, err := o.connect(rawURL)
	if err != nil {
		return nil, err
	}
	n := newNode(errors, keys, conn)
	n.member = server.Member
	n.access = access{cmp.Or(server.Option.Username, "default"), o.credentials != nil,
		server.Option.Password != "" || server.Credentials != nil, server.TLS != nil}
	return n, nil
}

// newNode puts the parts together: each knows those below it only.
func newNode(errors command.Errors, keys *command.Keys, conn *transport.Conn) *Node {
	n := &Node{errors: errors, keys: keys, conn: conn}
	n.voting = admission.New(n, conn, keys, errors)
	n.pipelines = transport.NewPipelines(transport.Sender{Conn: conn, Voting: n.voting, Keys: keys, Errors: errors})
	return n
}

// String returns the node's address without user and password.
func (n *Node) String() string { return n.errors.Name }

// Member returns what all clients of the node's group call it: host:port, and /db if
// that is not 0, or the parameter name of its URL.
func (n *Node) Member() string { return n.member }

// Engine returns n.
func (n *Node) Engine() any { return n }

// Finish implements node.Finisher: nobody waits any more for a connection, or for the
// server to be admitted.
func (n *Node) Finish() { n.voting.Finish() }

// Close closes the connection. Requests under way fail, with an unknown outcome.
// A second Close does nothing.
func (n *Node) Close() error {
	n.pipelines.Close()
	n.conn.Close()
	return nil
}
