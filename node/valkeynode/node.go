package valkeynode

import (
	"cmp"
	"fmt"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/fenlock/fenlock/node/valkeynode/internal/transport"
	"github.com/valkey-io/valkey-go"
)

// Node is one Valkey or Redis primary. It implements node.Node, node.Queuer, node.Sharer,
// node.Rejoiner, node.Admin, node.Examiner, node.Ordered and node.Finisher, and is safe for
// concurrent use.
type Node struct{ *common }

// common is the engine over any client library: what a Node can do is there.
type common = respnode.Node

// Open returns the node at a URL:
//
//	valkey://[user:password@]host[:6379][/db]    also redis://
//	valkeys://...                                TLS, also rediss://
//	unix:///path/to/socket
//	valkey-cluster://host,host.../tag    a cluster is one node, by the slot of a hash tag; with TLS
//	                                     valkeys-cluster://, also redis-cluster://, rediss-cluster://
//
// TLS verifies the server's certificate against the system's roots, or against the PEM file that
// the parameter ca names; cert and key name the client's own, and servername the name that the
// server's is for. The parameter passwordfile names a file that has the password in its only line,
// and that no other user may read. These files are read anew for each connection. All clients of a
// group name the same nodes, by host, port and database; where they reach a server by different
// addresses, the parameter name says what it is called.
//
// Open sends nothing and connects to nothing: a server that is down is no reason
// to fail. The error is about the URL, matches node.ErrInvalid, and
// contains no password.
func Open(rawURL string, with ...Option) (*Node, error) {
	o := apply(with)
	if o.name != nil {
		return nil, engine.Invalidf("WithName is for New: the URL's parameter name says what the node is called")
	}
	server, err := o.parse(rawURL)
	if err != nil {
		return nil, err
	}
	return o.node(server)
}

// New returns the node at the one address of an option of valkey-go. The option is for what a URL
// does not say: a dialer, credentials for each connection, a TLS configuration.
//
// What a node decides itself is set here: no retries, one connection, no cache. An option that says
// otherwise is refused with the field's name and the reason, by an error that matches
// node.ErrInvalid; so is a field that would have no effect. There is no way to give a
// valkey.Client, since that does not tell how it was made. With its defaults it may send a command
// twice, or a release before its acquire.
//
// The node is called like one of Open with the same address and database, or as WithName
// says. New sends nothing, and connects to nothing.
func New(option valkey.ClientOption, with ...Option) (*Node, error) {
	o := apply(with)
	if o.credentials != nil {
		return nil, engine.Invalidf("WithCredentials is for Open: set the option's AuthCredentialsFn")
	}
	name := ""
	if o.name != nil {
		if name = *o.name; !engine.IsMember(name) {
			return nil, engine.Invalidf("WithName: the name is empty, has spaces or is *")
		}
	}
	server, err := transport.FromOption(option, name)
	if err != nil {
		return nil, err
	}
	return o.node(server)
}

// OpenAll is Open for each URL. If one is refused, those that were opened are closed, and
// the error says which it is.
func OpenAll(urls ...string) ([]node.Node, error) {
	var nodes []node.Node
	for i, url := range urls {
		n, err := Open(url)
		if err != nil {
			for _, opened := range nodes {
				opened.Close()
			}
			return nil, fmt.Errorf("node %d of %d: %w", i+1, len(urls), err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// parse returns the server at a URL.
func (o *options) parse(rawURL string) (*transport.Server, error) {
	server, err := transport.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if o.credentials != nil {
		if server.Credentials != nil || server.Option.Password != "" {
			return nil, engine.Invalidf("the node's URL %s has a password, and WithCredentials was given: one is enough",
				server.Name)
		}
		server.Credentials = o.credentials
	}
	return server, nil
}

// connect returns the connection to a server, which is not made yet. It also returns what its node
// is to know of it, as far as a guard needs it.
func (o *options) connect(server *transport.Server) (*transport.Conn, respnode.Server, error) {
	known := respnode.Server{Name: server.Name, Secrets: resp.NewSecrets("")}
	conn, err := transport.Open(server, known.Secrets)
	if err != nil {
		return nil, known, engine.Invalidf("node %s: %v", server.Name, err)
	}
	return conn, known, nil
}

func (o *options) node(server *transport.Server) (*Node, error) {
	conn, known, err := o.connect(server)
	if err != nil {
		return nil, err
	}
	opt := server.Option
	known.Witness = server.Witness
	if o.witness != nil {
		known.Witness = max(*o.witness, -1)
	}
	known.Member, known.Prefix, known.TLS = server.Member, o.prefix, server.TLS != nil
	if known.Cluster = server.Tag != ""; known.Cluster {
		known.Prefix = "{" + server.Tag + "}" + o.prefix
	}
	if opt.DialCtxFn != nil || opt.Dialer.Resolver != nil {
		known.Via = server // what a function dials is not known
	}
	known.User, known.AnyUser = cmp.Or(opt.Username, "default"), o.credentials != nil || opt.AuthCredentialsFn != nil
	known.Password = opt.Password != "" || server.Credentials != nil || opt.AuthCredentialsFn != nil
	n, err := respnode.New(conn, known)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Node{n}, nil
}
