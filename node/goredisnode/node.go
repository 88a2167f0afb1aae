package goredisnode

import (
	"cmp"

	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// Node is one Valkey or Redis primary, which a client of go-redis leads to. It implements
// node.Node, node.Queuer, node.Sharer, node.Rejoiner, node.Admin, node.Examiner, node.Ordered and
// node.Finisher, and is safe for concurrent use. Close does not close the client.
type Node struct{ *common }

// common is the engine over any client library: what a Node can do is there.
type common = respnode.Node

// Option changes how New sets up a node.
type Option func(*options)

type options struct {
	prefix  string
	name    *string
	witness int
}

// WithPrefix sets what is put before a lock's name to make its key on the server, instead
// of "fenlock:". All clients of a group must agree.
func WithPrefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// WithName sets what all clients of the group call the node, as the parameter name of a URL
// does in package valkeynode. Without it that is Options.Addr as host:port, and /db if that
// is not 0: what valkeynode takes from a URL. A client of sentinels has no such address,
// and needs a name.
func WithName(name string) Option { return func(o *options) { o.name = &name } }

// WithWitness sets how many replicas must have what the server promises before it counts, whichever
// they are. 0, the default, means all that the server has; a negative number means none. It is
// valkeynode's parameter witness.
func WithWitness(replicas int) Option { return func(o *options) { o.witness = replicas } }

// New returns the node that a client leads to. The client has to be a *redis.Client with
//
//	MaxRetries: -1                  a command must not be sent twice
//	ContextTimeoutEnabled: true     deadlines count
//	MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
//
// and none of ReadTimeout: -2 and WriteTimeout: -2. Others are refused with an error that
// says which option to change, and matches node.ErrInvalid; so are cluster clients and
// rings. A hook that sends a command twice cannot be seen.
//
// New sends nothing. The client is the caller's: it has to stay open until the node is closed, and
// is not closed with it. It can be used for other things meanwhile. One that the program closes
// makes this node fail with an error that says so, and no other.
func New(client redis.UniversalClient, with ...Option) (*Node, error) {
	o := options{prefix: respnode.DefaultPrefix}
	for _, set := range with {
		set(&o)
	}
	own, err := accepted(client)
	if err != nil {
		return nil, err
	}
	opt := own.Options()
	name, member, err := nameOf(opt, o.name)
	if err != nil {
		return nil, err
	}
	provided := opt.CredentialsProvider != nil || opt.CredentialsProviderContext != nil ||
		opt.StreamingCredentialsProvider != nil
	n, err := respnode.New(newLink(own), respnode.Server{
		Name: name, Member: member, Prefix: o.prefix, Witness: o.witness, Via: own, Secrets: resp.NewSecrets(opt.Password),
		User: cmp.Or(opt.Username, "default"), AnyUser: provided, Password: opt.Password != "" || provided,
		TLS: opt.TLSConfig != nil,
	})
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}
