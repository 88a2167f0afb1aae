package bucketnode

import (
	"context"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is one prefix of a bucket. It implements node.Node, node.Sharer, node.Rejoiner,
// node.Admin, node.Examiner, node.Located and node.Finisher, and is safe for concurrent use. Make
// one with Open; the zero Node is not usable.
type Node struct {
	*cas.Node
	store *store
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Sharer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
)

// Open returns the node at a URL:
//
//	s3://[key:secret@]host[:port]/bucket/prefix[?region=...]
//
// The host is the store's, for example s3.eu-central-1.amazonaws.com. The bucket has to be there.
// The prefix is the node's: nothing else may write under it. Without a key, the keys are looked
// for as the SDKs do: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN; the
// profile of AWS_PROFILE in ~/.aws; the role of the pod or the machine. The parameter
// passwordfile names a file with the secret in its only line. The region is that of the host, the
// parameter region, or AWS_REGION.
//
// TLS is on, and verifies the server's certificate against the system's roots, or against the PEM
// file that the parameter ca names. On a loopback address it is off unless tls=on is given. The
// parameter tls=off turns it off elsewhere. All clients of a group name the same nodes, by host,
// bucket and prefix, or by the parameter name.
//
// Open sends nothing: a store that is down is no reason to fail. The error is about the URL,
// matches node.ErrInvalid, and contains no secret.
func Open(rawURL string) (*Node, error) {
	p, err := parseURL(rawURL)
	if err != nil {
		return nil, engine.Named("bucketnode", "open", err)
	}
	n, s := &Node{}, &store{object: &object{place: p, key: p.prefix + objectName}}
	n.store = s
	n.Node = cas.New(n, s, cas.Config{Kind: "s3", Name: p.name, Explain: explained, MaxRecord: maxRecord, Slack: slack})
	s.joined = n.Admission().Joined
	s.reads, s.writes = newLane(n.Life(), s.readFor, false), newLane(n.Life(), s.writeFor, false)
	s.proof = &proof{object: s.object}
	s.proof.run = newLane(n.Life(), s.proof.proveFor, true)
	return n, nil
}

// maxRecord bounds the leases of one stripe, in bytes.
const maxRecord = 1 << 20

// location is where a node's object is, for all that a process knows.
type location struct{ endpoint, bucket, key string }

// Location implements node.Located.
func (n *Node) Location() any { return location{n.store.endpoint, n.store.bucket, n.store.key} }

// Close ends what is under way, with an unknown outcome, and waits for it. Leases stay. A second
// Close does nothing.
func (n *Node) Close() error {
	n.Node.Close()
	n.store.idle()
	return nil
}

// Examine implements node.Examiner.
func (n *Node) Examine(ctx context.Context, look node.Look) (node.Examination, error) {
	e := node.Examination{Product: "S3", Member: n.Member(), Role: "bucket"}
	err := n.Run(ctx, "examine", func(ctx context.Context) error { return n.examine(ctx, look, &e) })
	return e, err
}
