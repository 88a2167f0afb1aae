package valkeynode

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/valkey-io/valkey-go"
)

// DefaultPrefix is put before a lock's name to make its key.
const DefaultPrefix = "fenlock:"

// The keys that are not leases: a group's registers, and the lines of those who
// wait for a lock. No lock may have a key that begins with one of these.
const (
	registersPrefix = "fenlock-registers:"
	linePrefix      = "fenlock-line:"
)

var reservedPrefixes = [...]string{registersPrefix, linePrefix}

// reservedPrefix returns which of the prefixes above a key begins with, or "".
func reservedPrefix(key string) string {
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(key, prefix) {
			return prefix
		}
	}
	return ""
}

// Node is one Valkey or Redis primary. It implements node.Node, node.Queuer,
// node.Rejoiner, node.Admin and node.Ordered, and is safe for concurrent use.
type Node struct {
	name      string
	prefix    string
	registers string // the key
	secret    string // the password, to keep it out of errors
	client    valkey.Client
	slots     slots
	lanes     [laneCount]lane
	mayMeet   bool // a lock's key may begin with a reserved prefix
	lastTTL   atomic.Pointer[millisecondsText]

	// dials counts connections. A new one may lead to another server, so that
	// is looked at before an answer counts.
	dials  atomic.Uint64
	conn   atomic.Pointer[watched] // the newest, or nil
	server atomic.Pointer[server]

	lookError atomic.Pointer[error] // of the last look at the server

	mu      sync.Mutex // guards the rest; not held during requests
	group   *node.Group
	looking *flight  // at the server: connecting, INFO
	joining *flight  // admission
	out     *absence // the last refusal of an admission
	warned  string   // the last warning, so that each is given once
	closed  bool
	deafen  []func()       // ends the listening, of each client
	tasks   sync.WaitGroup // flights, listening, and sending

	earlier atomic.Pointer[[]*Node] // nodes of the group before this one
}

var (
	_ node.Ordered  = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
)

// server is the run of a server that the node last looked at.
type server struct {
	dial   uint64
	runID  string
	replID string
	stale  atomic.Bool // it has to be looked at again
}

// absence is why and until when a run of a server is out.
type absence struct {
	runID  string
	until  time.Time // not worth asking before
	detail string
}

const (
	ringScale   = 8   // the client library's ring has 2^ringScale places
	maxInFlight = 200 // with a context; fewer, so that it is never full, with the lanes either

	// A whole batch is written at once. Replies are short.
	readBuffer, writeBuffer = 8 << 10, 32 << 10

	pingInterval = time.Second     // on an idle connection
	connTimeout  = 2 * time.Second // after which a silent connection is closed
)

// Option changes how Open sets a node up.
type Option func(*Node)

// WithPrefix sets what is put before a lock's name to make its key on the
// server, instead of DefaultPrefix. All clients of a group must agree. With ""
// the key is the name itself and the value is opaque, which is the format of other
// Redlock clients: theirs and fenlock's then exclude each other.
func WithPrefix(prefix string) Option { return func(n *Node) { n.prefix = prefix } }

// Open returns the node at a URL:
//
//	valkey://[user:password@]host[:6379][/db]    also redis://
//	valkeys://...                                TLS, also rediss://
//	unix:///path/to/socket
//
// TLS verifies the server's certificate against the system's roots, or against
// the PEM file that the parameter ca names; cert and key name the client's own.
//
// Open sends nothing and connects to nothing: a server that is down is no reason
// to fail. The error is about the URL, matches node.ErrInvalid, and
// contains no password.
func Open(rawURL string, options ...Option) (*Node, error) {
	opt, name, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	n := &Node{name: name, prefix: DefaultPrefix, secret: opt.Password, slots: newSlots()}
	for _, o := range options {
		o(n)
	}
	if reserved := reservedPrefix(n.prefix); reserved != "" {
		return nil, invalidf("node %s: the prefix %q begins with %q, which is reserved", name, n.prefix, reserved)
	}
	n.registers = registersPrefix + n.prefix
	for i := range n.lanes {
		n.lanes[i].more.L = &n.lanes[i].mu
	}
	for _, reserved := range reservedPrefixes {
		n.mayMeet = n.mayMeet || strings.HasPrefix(reserved, n.prefix)
	}
	n.client, err = newClient(opt, n.watch)
	if err != nil {
		return nil, invalidf("node %s: %v", name, err)
	}
	return n, nil
}

var errNotYet = errors.New("not connected yet")

// newClient sets the client library up as one pipelined connection, without
// retries: a request that is sent twice could be executed twice. Each new
// connection goes through watch, unless that is nil.
func newClient(opt valkey.ClientOption, watch func(net.Conn) net.Conn) (valkey.Client, error) {
	network := "tcp"
	if strings.HasPrefix(opt.InitAddress[0], "/") {
		network = "unix"
	}
	var opened atomic.Bool
	opt.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		// NewClient dials at once. It must not: Open has no context to bound it.
		if !opened.Load() {
			return nil, errNotYet
		}
		conn, err := dialContext(ctx, network, address, dialer, config)
		if err == nil && watch != nil {
			conn = watch(conn)
		}
		return conn, err
	}
	opt.ForceSingleClient = true
	opt.DisableCache = true
	opt.DisableRetry = true
	opt.AlwaysPipelining = true
	opt.PipelineMultiplex = -1 // one connection: a release must not overtake an acquire
	opt.RingScaleEachConn = ringScale
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = readBuffer, writeBuffer
	opt.Dialer = net.Dialer{Timeout: time.Second, KeepAlive: pingInterval}
	opt.ConnWriteTimeout = connTimeout
	opt.ClientName = "fenlock"
	opt.ClientSetInfo = valkey.DisableClientSetInfo
	client, err := valkey.NewClient(opt)
	opened.Store(true)
	if client == nil {
		return nil, err
	}
	return client, nil
}

// watch counts a new connection, and keeps an eye on it.
func (n *Node) watch(conn net.Conn) net.Conn {
	c := &watched{Conn: conn}
	n.conn.Store(c)
	n.dials.Add(1)
	return c
}

// String returns the node's address without user and password.
func (n *Node) String() string { return n.name }

// Engine returns n.
func (n *Node) Engine() any { return n }

// key returns the key of a lock. It never meets the registers' key or a line's.
func (n *Node) key(name string) (string, error) {
	key := n.prefix + name
	if reserved := reservedPrefix(key); reserved != "" {
		return "", invalidf("the lock's key %.60q begins with %q, which is reserved", key, reserved)
	}
	return key, nil
}
