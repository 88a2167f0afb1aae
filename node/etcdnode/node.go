package etcdnode

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Node is one etcd cluster. It implements node.Node, node.Queuer, node.Rejoiner,
// node.Admin and node.Examiner, and is safe for concurrent use. Make one with Open or
// New; the zero Node is not usable.
type Node struct {
	*cluster
	name   string // for people
	member string // what clients of its group call it
	user   string
	tls    bool
	client *clientv3.Client // the caller's, otherwise nil

	clock     sharedClock
	leases    sharedLeases
	held      heldLeases
	places    places
	listeners listeners
	batcher   batcher
	closing   sync.Once
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
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
		members = append(members, &member{address: address, life: n.life, dial: func() (*clientv3.Client, error) {
			return a.connect(n.life, address, &n.dials)
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
		if config.TLS, err = a.config(); err != nil {
			return nil, err
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
	n.use([]*member{{address: client.Endpoints()[0], life: n.life, client: client}})
	n.life.Spawn(func() { dialed{&n.dials}.watch(n.life, client.ActiveConnection()) })
	return n, nil
}

func newNode(prefix keys) *Node {
	return &Node{cluster: &cluster{keys: prefix, life: engine.NewLifetime()}}
}

// use puts the parts together.
func (n *Node) use(members []*member) {
	n.pool = newPool(members)
	n.voting = newVoting(n, n.cluster)
	n.leases = sharedLeases{pool: n.pool, life: n.life, current: map[int64]*sharedLease{}, granting: map[int64]*granting{}}
	n.held = heldLeases{cluster: n.cluster, byName: map[string]*held{}, contended: map[string]time.Duration{}}
	n.places = places{held: &n.held, all: map[placeKey]*ownPlace{}, told: map[string]told{}}
	n.listeners = listeners{cluster: n.cluster, places: &n.places, all: map[string]*listener{}}
	n.batcher = batcher{cluster: n.cluster}
}

// String returns the node's addresses and prefix, without user and password.
func (n *Node) String() string { return n.name }

// Member returns what all clients of the node's group call it.
func (n *Node) Member() string { return n.member }

// Engine returns n.
func (n *Node) Engine() any { return n }

// location is where a node's leases are, for all that a process knows.
type location struct {
	name, member string
	keys         keys
	client       *clientv3.Client // nil, or the caller's
}

// Location implements node.Located.
func (n *Node) Location() any { return location{n.name, n.member, n.keys, n.client} }

// Listen implements node.Queuer. An error of the first attempt is returned at once.
func (n *Node) Listen(ctx context.Context, client string, notify func(waiter string)) error {
	return n.errorf("listen", n.listeners.listen(ctx, client, notify))
}

// run does something until it is done or the node is closed, and names the node in its error.
func (n *Node) run(ctx context.Context, op string, do func(ctx context.Context) error) error {
	ctx, over, err := n.life.Request(ctx)
	if err == nil {
		err = do(ctx)
		over()
	}
	return n.errorf(op, err)
}

// errorf names the node in an error.
func (n *Node) errorf(op string, err error) error { return engine.Named("etcd "+n.name, op, err) }

// Close ends all requests, with an unknown outcome, and makes the waiters unreachable. A
// lease that is not released stays until etcd ends it: its holder may rely on it. The
// client that New was given goes on. A second Close does nothing.
func (n *Node) Close() error {
	n.closing.Do(func() {
		n.listeners.leave()
		n.voting.admission.Close()
		n.life.End()
		for _, m := range n.pool.members {
			m.close(n.given)
		}
		n.life.Wait()
	})
	return nil
}
