package etcdnode

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Node is one etcd cluster. It implements node.Node, node.Sharer, node.Queuer, node.Rejoiner,
// node.Admin, node.Examiner and node.Ailing, and is safe for concurrent use. Make one with Open or
// New; the zero Node is not usable.
type Node struct {
	cas.Queued
	*cluster
	store  *store
	name   string // for people
	member string // what clients of its group call it
	user   string
	tls    bool
	client *clientv3.Client // the caller's, otherwise nil

	connections *engine.Lifetime // ends after all that uses them
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
	_ node.Sharer   = (*Node)(nil)
	_ node.Ailing   = (*Node)(nil)
)

// Open returns the node at a URL, which names some or all members of one cluster:
//
//	etcd://[user:password@]host1[:2379],host2[:2379],...[/prefix]
//	etcds://...                                                    TLS
//
// All clients of a node use the same prefix; without one it is DefaultPrefix. TLS verifies the
// members' certificates against the system's roots, or against the PEM file that the parameter ca
// names; cert and key name the client's own, and servername the name that the members' are for. The
// parameter passwordfile names a file that has the password in its only line, and that no other
// user may read. These files are read when a member is first connected to. Where clients of a group
// reach the cluster by different addresses, the parameter name says what it is called.
//
// Open sends nothing and connects to nothing. The error is about the URL, matches
// node.ErrInvalid, and contains no password.
func Open(rawURL string) (*Node, error) {
	a, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	n := newNode(a.prefix)
	n.name, n.member, n.user, n.tls = a.name, a.member, a.User, a.TLS
	var members []*member
	for _, address := range a.Hosts {
		members = append(members, &member{address: address, life: n.connections, dial: func() (*clientv3.Client, error) {
			return a.connect(n.connections, address, &n.dials)
		}})
	}
	n.use(members)
	return n, nil
}

// connect makes a client for one member, which ends with life. It returns before there is a
// connection, unless there is a user, who has to be authenticated first.
func (a *address) connect(life context.Context, member string, dials *atomic.Int64) (*clientv3.Client, error) {
	password, err := a.Password()
	if err != nil {
		return nil, err
	}
	config := clientv3.Config{
		Endpoints: []string{"http://" + member}, Username: a.User, Password: password,
		Context: life, DialTimeout: openTimeout,
		// A member whose machine is gone answers nothing, not even that it is gone.
		// gRPC allows no shorter time.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second, PermitWithoutStream: false,
		// Once. The library takes what comes with the codes Canceled and
		// DeadlineExceeded, from a proxy say, for not carried out.
		MaxUnaryRetries: 1,
		Logger:          zap.NewNop(),
	}
	config.DialOptions = []grpc.DialOption{grpc.WithStatsHandler(dialed{dials})}
	if a.TLS {
		config.Endpoints[0] = "https://" + member
		if config.TLS, err = a.TLSConfig(); err != nil {
			return nil, err
		}
		config.TLS.ServerName = "" // the library verifies the host of the endpoint
		if name := a.Get("servername"); name != "" {
			config.DialOptions = append(config.DialOptions, grpc.WithAuthority(name))
		}
	}
	return clientv3.New(config)
}

// New returns a node on an existing client, with keys below a prefix, "" for
// DefaultPrefix. The client stays the caller's: Close does not close it.
//
// The error matches node.ErrInvalid if the client is none, is closed, or has a namespace's or
// another wrapper's KV in the place of its own. Of a client's configuration etcd's library shows
// nothing else. Two settings matter. DialKeepAliveTime should be 10 s: without it every request
// that is sent to a member whose machine is gone waits until its time is over. MaxUnaryRetries
// should be 1: fenlock's transactions cannot be carried out twice, but a repeated one may be
// answered as lost. A client asks its members in turn, so with one that hangs a part of the
// requests has no answer; Open does better.
func New(client *clientv3.Client, prefix string) (*Node, error) {
	if client == nil || client.ActiveConnection() == nil || len(client.Endpoints()) == 0 {
		return nil, engine.Invalidf("etcdnode: the client is none that clientv3.New has made")
	}
	if err := client.Ctx().Err(); err != nil {
		return nil, engine.Invalidf("etcdnode: the client is closed")
	}
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if prefix[len(prefix)-1] != '/' {
		return nil, engine.Invalidf("etcdnode: the prefix %q does not end with a slash", prefix)
	}
	n := newNode(keys(prefix))
	n.given, n.client, n.user = true, client, client.Username
	for i, e := range client.Endpoints() {
		if i > 0 {
			n.member += ","
		}
		if _, rest, ok := strings.Cut(e, "://"); ok {
			e = rest
		}
		n.member += e
	}
	if prefix != DefaultPrefix {
		n.member += prefix[:len(prefix)-1]
	}
	n.name = "etcd://" + n.member
	// The KV of the library itself: a KV that the caller has put into the client may answer from a
	// cache or prefix the keys.
	n.use([]*member{{address: client.Endpoints()[0], life: n.connections, client: client}})
	n.life.Spawn(func() { dialed{&n.dials}.watch(n.life, client.ActiveConnection()) })
	return n, nil
}

func newNode(prefix keys) *Node {
	n := &Node{cluster: &cluster{keys: prefix}}
	n.voting = &voting{cluster: n.cluster, memories: map[string]bool{}, others: map[uint64]int64{}}
	n.connections = engine.NewLifetime()
	return n
}

// use puts the parts together.
func (n *Node) use(members []*member) {
	c, s := n.cluster, &store{voting: n.voting}
	n.Queued = cas.NewQueued(n, s, cas.Config{Kind: "etcd", Name: n.name, MaxRecord: maxRecord, Behind: true,
		Exact: true})
	c.pool, c.life, n.voting.admission = newPool(members), n.Life(), n.Admission()
	s.seen = cas.NewClock(s, c.life, c.ended, nil)
	s.sessions = sessions{cluster: c, current: map[int64]*session{}, granting: map[int64]*engine.Shared[*session]{}}
	s.batcher = newBatcher(c)
	n.store = s
}

// Member returns what all clients of the node's group call it.
func (n *Node) Member() string { return n.member }

// Ails implements node.Ailing.
func (n *Node) Ails() error { return n.pool.lately() }

// location is where a node's leases are, for all that a process knows.
type location struct {
	name, member string
	keys         keys
	client       *clientv3.Client // nil, or the caller's
}

// Location implements node.Located.
func (n *Node) Location() any { return location{n.name, n.member, n.keys, n.client} }

// Close ends all requests, with an unknown outcome, and makes the waiters unreachable. A
// lease that is not released stays until etcd ends it: its holder may rely on it. The
// client that New was given goes on. A second Close does nothing.
func (n *Node) Close() error {
	n.Queued.Close()
	n.store.seen.Close()
	if !n.connections.End() {
		return nil
	}
	n.connections.Wait()
	for _, m := range n.pool.members {
		if c := m.opened(); c != nil && !n.given {
			c.Close()
		}
	}
	return nil
}
