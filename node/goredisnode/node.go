package goredisnode

import (
	"cmp"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// Node is one Valkey or Redis primary, or a cluster, to which a client of go-redis leads. It
// implements node.Node, node.Queuer, node.Sharer, node.Rejoiner, node.Admin, node.Examiner,
// node.Ordered and node.Finisher, and is safe for concurrent use. Close does not close the client.
type Node struct{ *common }

// common is the engine over any client library: what a Node can do is there.
type common = respnode.Node

// Option changes how New sets up a node.
type Option func(*options)

type options struct {
	prefix  string
	tag     string
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

// WithTag sets the hash tag of all keys of a cluster, instead of "fenlock": it is the path of a
// URL in package valkeynode. All clients of a group must agree. It may have at most 64 letters,
// digits, dots, hyphens and underscores. For a *redis.Client it is refused.
func WithTag(tag string) Option { return func(o *options) { o.tag = tag } }

// WithWitness sets how many replicas must have what the server promises before it counts, whichever
// they are. 0, the default, means all that the server has; a negative number means none. It is
// valkeynode's parameter witness.
func WithWitness(replicas int) Option { return func(o *options) { o.witness = replicas } }

// New returns the node that a client leads to. The client has to be a *redis.Client or a
// *redis.ClusterClient with
//
//	MaxRetries: -1                  a command must not be sent twice
//	ContextTimeoutEnabled: true     deadlines count
//	MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
//
// and none of ReadTimeout: -2 and WriteTimeout: -2. Others are refused with an error that
// says which option to change, and matches node.ErrInvalid; so are rings, and cluster clients that
// read from replicas. A hook that sends a command twice cannot be seen.
//
// A cluster is one node, whose keys are all in the slot of a hash tag (WithTag). The cluster client
// is asked which member has that slot, and the commands go to that member's client.
//
// New sends nothing. The client is the caller's: it has to stay open until the node is closed, and
// is not closed with it. It can be used for other things meanwhile. One that the program closes
// makes this node fail with an error that says so, and no other.
func New(client redis.UniversalClient, with ...Option) (*Node, error) {
	o := options{prefix: respnode.DefaultPrefix}
	for _, set := range with {
		set(&o)
	}
	own, whole, err := accepted(client)
	if err != nil {
		return nil, err
	}
	if o.name != nil && !engine.IsMember(*o.name) {
		return nil, engine.Invalidf("go-redis: WithName: the name is empty, has spaces or is *")
	}
	server := respnode.Server{Prefix: o.prefix, Witness: o.witness, Via: client, Cluster: whole != nil}
	var opt *redis.Options
	if whole != nil {
		opt = memberOptions(whole.Options(), "")
		if o.tag = cmp.Or(o.tag, defaultTag); !engine.IsTag(o.tag) {
			return nil, engine.Invalidf("go-redis: WithTag: a hash tag has at most 64 letters, digits, dots, hyphens and underscores")
		}
		server.Prefix = "{" + o.tag + "}" + o.prefix
		server.Name, server.Member, err = nameOfCluster(whole.Options(), o.tag, o.name)
	} else {
		opt = own.Options()
		if o.tag != "" {
			return nil, engine.Invalidf("go-redis: WithTag is for a cluster client")
		}
		server.Name, server.Member, err = nameOf(opt, o.name)
	}
	if err != nil {
		return nil, err
	}
	var link resp.Link
	if whole != nil {
		link = newCluster(whole, server.Prefix)
	} else {
		link = newLink(own)
	}
	provided := opt.CredentialsProvider != nil || opt.CredentialsProviderContext != nil ||
		opt.StreamingCredentialsProvider != nil
	server.Secrets, server.User, server.AnyUser = resp.NewSecrets(opt.Password), cmp.Or(opt.Username, "default"), provided
	server.Password, server.TLS = opt.Password != "" || provided, opt.TLSConfig != nil
	n, err := respnode.New(link, server)
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}
