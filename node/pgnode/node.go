package pgnode

import (
	"context"
	"database/sql"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is a node.Starter, node.Queuer, node.Rejoiner, node.Admin and node.Examiner in a
// PostgreSQL database. It is safe for concurrent use. Make one with Open or New; the zero
// Node is not usable.
type Node struct {
	*database
	member string

	admission *admit.Admission
	terms     atomic.Pointer[string] // what operations take the group's terms to be, nil until Join
	workers   *workers
	swept     atomic.Int64              // when this client swept last, in Unix milliseconds
	contended [node.Stripes]atomic.Bool // where a name was held, or had a queue: see usual
	// seen has a bit for each name whose lease was in the row of its stripe. Names share bits: to be
	// wrong costs a round trip.
	seen [node.Stripes]atomic.Uint64
	seed maphash.Seed

	mu        sync.Mutex
	listeners map[string]*listener // by client
}

var (
	_ node.Starter  = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
)

// maxConnections is how many connections a node opens, beside the one of its waiters.
// Operations are short: more would only queue up in the server.
const maxConnections = 8

// Open returns the node at a URL:
//
//	postgres://[user[:password]@]host[:5432]/database    also postgresql://
//	postgres://[user[:password]@]/database?host=/run/postgresql    a folder of Unix sockets
//
// with the parameters of docs/engines.md: sslmode, sslrootcert, sslcert, sslkey, service,
// connect_timeout, application_name and options are as in libpq. Beside these:
//
//   - sslmode: "verify-full" unless the host is this machine (a loopback address, localhost, a
//     socket's folder), where it is "prefer". "verify-ca", "require", "prefer" and
//     "disable" mean what they mean to libpq: only the first two prove who the server is.
//   - passwordfile: a file that has the password in its only line and that no other user may read.
//     It is read anew for each connection.
//   - host, port: in place of a host in the URL.
//   - target_session_attrs: which of several hosts, host1:5432,host2:5432, is meant. They have to
//     be one cluster. It is "read-write" for them, and may be "primary".
//   - schema: where the tables are, DefaultSchema if absent.
//   - name: what the node is called in its group, where clients reach it by different
//     addresses.
//
// What the URL leaves open is taken from the service and the environment (PGUSER, PGPASSWORD,
// ~/.pgpass, PGSERVICE, PGSSLMODE) as by libpq, with two exceptions. PGHOST and PGPORT are for a
// URL without a host. PGTARGETSESSIONATTRS is not read. Other parameters are refused.
//
// Open sends nothing: a server that is down is no reason to fail. The error
// is about the URL, matches node.ErrInvalid, and contains no password. The tables
// have to be there, see Migrate.
func Open(rawURL string) (*Node, error) {
	t, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	var options []stdlib.OptionOpenDB
	if t.password != nil {
		options = append(options, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) (err error) {
			c.Password, err = t.password()
			return err
		}))
	}
	var several *hosts
	if t.several {
		several = keepTo(t.config, t.password)
		options = append(options, stdlib.OptionResetSession(several.reset))
	}
	db := stdlib.OpenDB(*t.config, options...)
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	db.SetConnMaxIdleTime(idleTime)
	n, err := newNode(db, t.schema)
	if err != nil {
		db.Close()
		return nil, err
	}
	if several != nil {
		several.closing = n.closing
	}
	n.own, n.name, n.member, n.password = t.config, t.name, inOneWord(t.member), t.password
	n.connecting = max(connectTimeout, t.config.ConnectTimeout*time.Duration(len(hostsOf(t.config))))
	return n, nil
}

// New returns the node in a database that the caller has opened, with a driver of
// PostgreSQL, in a schema; empty is DefaultSchema. The name tells nodes apart for people, and is
// what all clients of the group call this one.
//
// The pool stays the caller's: Close leaves it open, and a pool that the caller closes is an error
// of every operation. Its transactions have to be READ COMMITTED by default. It needs a connection
// for each operation under way. With pgx's driver it needs one more while a client waits, if it may
// have four or more: otherwise waiters poll. New reads how many it may have: call SetMaxOpenConns
// before.
//
// An operation that was given up keeps its connection for up to two seconds, and one that is still
// being made for up to ten. The next operations need it.
//
// It sends nothing. The error matches node.ErrInvalid.
func New(db *sql.DB, name, schema string) (*Node, error) {
	if db == nil || strings.TrimSpace(name) == "" {
		return nil, engine.Invalidf("pgnode: a pool and a name are needed")
	}
	if schema == "" {
		schema = DefaultSchema
	}
	n, err := newNode(db, schema)
	if err != nil {
		return nil, err
	}
	n.name, n.member = name, inOneWord(name)
	return n, nil
}

// identifier is what a schema may be called: nothing in it has to be quoted.
var identifier = lazily(`^[a-z_][a-z0-9_]{0,62}$`)

func newNode(db *sql.DB, schema string) (*Node, error) {
	if !identifier().MatchString(schema) || strings.HasPrefix(schema, "pg_") {
		return nil, engine.Invalidf("pgnode: the schema %.70q is not 1 to 63 of a-z, 0-9 and _, a letter first, and not pg_",
			schema)
	}
	n := &Node{database: newDatabase(db, schema), listeners: make(map[string]*listener),
		seed: maphash.MakeSeed()}
	n.workers = newWorkers(n.closing, cap(n.slots))
	n.admission = admit.New(n, admission{n}, admit.Pause)
	return n, nil
}

// inOneWord returns a name as a member is recorded: members are separated by spaces.
func inOneWord(name string) string { return strings.Join(strings.Fields(name), "%20") }

// String returns the node's hosts, database and schema, without user and password.
func (n *Node) String() string { return n.name }

// Member returns what all clients of the node's group call it.
func (n *Node) Member() string { return n.member }

// Engine returns n.
func (n *Node) Engine() any { return n }

// location is where a node's leases are, for all that a process knows.
type location struct {
	name, member, schema string
	db                   *sql.DB // nil, or the caller's
}

// Location implements node.Located.
func (n *Node) Location() any {
	if n.own == nil {
		return location{schema: n.schema, db: n.db}
	}
	return location{name: n.name, member: n.member, schema: n.schema}
}

// Close ends what the node has begun, and closes its connections unless they are the
// caller's. Operations under way fail with an unknown outcome; leases stay. Its waiters
// cannot be notified any more. A second Close does nothing.
func (n *Node) Close() error {
	if !n.closing.End() {
		return nil
	}
	n.admission.Close()
	n.closing.Wait()
	if n.own == nil {
		return nil
	}
	return n.errorf("close", n.db.Close())
}

// look runs what reads, until Close.
func (n *Node) look(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, over, err := n.closing.Begin(ctx)
	if err != nil {
		return n.errorf(what, err)
	}
	defer over()
	return n.errorf(what, n.explain(ctx, contextual(ctx, f(ctx))))
}
