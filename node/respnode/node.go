package respnode

import (
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/admission"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/pipeline"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// DefaultPrefix is put before a lock's name to make its key.
const DefaultPrefix = command.DefaultPrefix

// Node is one Valkey or Redis primary. It implements node.Node, node.Queuer, node.Sharer,
// node.Rejoiner, node.Admin, node.Examiner, node.Ordered and node.Finisher, and is safe for
// concurrent use.
type Node struct {
	errors    command.Errors
	server    Server
	keys      *command.Keys
	link      resp.Link
	voting    *admission.Voting
	pipelines *pipeline.Pipelines
}

var (
	_ node.Ordered  = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Sharer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
)

// Server is what a node's owner knows of its server.
type Server struct {
	Name   string // for people, with no password in it
	Member string // what all clients of its group call the node (engine.IsMember)
	Prefix string // of a lock's key
	// Cluster: the node is a cluster. The link leads to the member that has the slot of all keys, and
	// the prefix begins with their hash tag.
	Cluster bool
	// Via is a pointer if the caller makes the connections, or has made them. The same address
	// leads to the same server only by the same pointer then. nil: it says nothing more than Name.
	Via any
	// Witness is how many replicas must have what is promised before it counts, whichever they are.
	// 0: all that the server has. Negative: none.
	Witness int
	// Secrets are the passwords that no error may have in it; nil: there are none.
	Secrets *resp.Secrets

	// How it is reached, for those who examine it.
	User     string
	AnyUser  bool // a function says who it is, for each connection
	Password bool
	TLS      bool
}

// New returns the node at a link, which it closes when it is closed. The error is about the
// prefix, and matches node.ErrInvalid; the link is not closed then.
func New(link resp.Link, s Server) (*Node, error) {
	keys, err := command.NewKeys(s.Prefix)
	if err != nil {
		return nil, err
	}
	if s.Cluster {
		keys.InCluster()
	}
	errors := command.Errors{Name: s.Name, Secrets: s.Secrets, Cluster: s.Cluster}
	n := &Node{errors: errors, server: s, keys: keys, link: link}
	n.voting = admission.New(n, link, keys, n.errors, admission.Witness(max(s.Witness, -1)))
	n.pipelines = pipeline.New(pipeline.Sender{Link: link, Voting: n.voting, Keys: keys, Errors: n.errors})
	return n, nil
}

// String returns the node's address without user and password.
func (n *Node) String() string { return n.errors.Name }

// Member returns what all clients of the node's group call it.
func (n *Node) Member() string { return n.server.Member }

// Engine returns n.
func (n *Node) Engine() any { return n }

// location is where a node's leases are, for all that a process knows.
type location struct {
	name, member, prefix string
	via                  any
}

// Location implements node.Located.
func (n *Node) Location() any {
	return location{n.server.Name, n.server.Member, n.server.Prefix, n.server.Via}
}

// Shares implements node.Sharer.
func (n *Node) Shares() {}

// Finish implements node.Finisher: it ends all waiting for a connection, or for the server to be
// admitted.
func (n *Node) Finish() { n.voting.Finish() }

// Close closes the link. Requests under way fail, with an unknown outcome.
// A second Close does nothing.
func (n *Node) Close() error {
	n.voting.Close()
	n.pipelines.Close()
	n.link.Close()
	return nil
}
