package natsnode

import (
	"context"
	"encoding/json"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is one bucket of NATS JetStream. It implements node.Node, node.Queuer, node.Sharer,
// node.Rejoiner, node.Admin, node.Examiner, node.Located and node.Finisher, and is safe for
// concurrent use. Make one with Open; the zero Node is not usable.
type Node struct {
	cas.Queued
	link  *link
	store store
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Sharer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
)

// Open returns the node at a URL:
//
//	nats://[user:password@]host[:4222][,host[:4222]...]/BUCKET[?creds=/path]
//
// The hosts are servers of one cluster. The bucket has to be there: see Migrate. A token is written
// nats://:token@host. The parameter passwordfile names a file with the password in its only line,
// or with the token if there is no user; creds names a file of NATS credentials. Files are read
// anew for each connection. Only their owner may read those with secrets (package secretfile).
//
// TLS is on, and verifies the server's certificate against the system's roots, or against the PEM
// file that the parameter ca names; cert and key name the client's own. On a loopback address it is
// off unless one of these or tls=on is given. The parameter tls=off turns it off elsewhere. All
// clients of a group name the same hosts and bucket, or say by the parameter name what the node is
// called.
//
// Open sends nothing and connects to nothing: a server that is down is no reason to fail. The error
// is about the URL, matches node.ErrInvalid, and contains no secret.
func Open(rawURL string) (*Node, error) {
	p, err := parseURL(rawURL)
	if err != nil {
		return nil, engine.Named("natsnode", "open", err)
	}
	n := &Node{link: &link{place: p}}
	k := keys{n.link}
	n.store = store{cas.Marked(k), k}
	n.Queued = cas.NewQueued(n, n.store, cas.Config{Kind: "nats", Name: p.name, Explain: explained, MaxRecord: maxRecord})
	n.link.life = n.Life()
	return n, nil
}

// maxRecord bounds the leases of one stripe, in bytes. A message of a server has 1 MiB by default,
// with its headers.
const maxRecord = 1<<20 - 4<<10

// Member returns what all clients of the node's group call it: the hosts, sorted, and the bucket,
// or the URL's name.
func (n *Node) Member() string { return n.link.member }

// location is where a node's leases are, for all that a process knows.
type location struct{ name, member string }

// Location implements node.Located.
func (n *Node) Location() any { return location{n.link.name, n.link.member} }

// Migrate makes the bucket, on as many servers as the URL's parameter replicas says, 1 by default.
// It does nothing if there is the same bucket already. A bucket with other settings is an error,
// and stays as it is. The URL has to have sync_interval=always: the operator's word that all
// servers are configured so, which no client can see. The bucket keeps that word, for all clients.
func (n *Node) Migrate(ctx context.Context) error {
	return n.Run(ctx, "migrate", n.link.create)
}

// Schema returns the bucket's configuration, as "nats stream add --config" takes it.
func (n *Node) Schema() string {
	text, err := json.MarshalIndent(n.link.config(), "", "  ")
	if err != nil {
		return err.Error() // which cannot be
	}
	return string(text)
}
