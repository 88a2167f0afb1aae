package mysqlnode

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
	"github.com/fenlock/fenlock/node/engine"
)

// Node is one MySQL or MariaDB primary. It implements node.Node, node.Queuer,
// node.Rejoiner, node.Admin, node.Examiner and node.Finisher, and is safe for concurrent use.
// Make one with Open or New; the zero Node is not usable.
type Node struct {
	cas.Queued
	*pool
	location location
}

var (
	_ node.Node     = (*Node)(nil)
	_ node.Queuer   = (*Node)(nil)
	_ node.Rejoiner = (*Node)(nil)
	_ node.Admin    = (*Node)(nil)
	_ node.Examiner = (*Node)(nil)
	_ node.Located  = (*Node)(nil)
	_ node.Finisher = (*Node)(nil)
)

// Open returns the node at a URL:
//
//	mysql://user:password@host[:3306]/database
//
// TLS is on, and verifies the server's certificate against the system's roots, or against the PEM
// file that the parameter ca names; cert and key name the client's own, and servername the name
// that the server's is for. On a loopback address it is off unless one of these is given. The
// parameter tls=off turns it off elsewhere. The parameter passwordfile names a file that has the
// password in its only line, and that no other user may read; it is read anew for each connection.
// All clients of a group name the same nodes, by host, port and database; where they reach a server
// by different addresses, the parameter name says what it is called.
//
// Open sends nothing and connects to nothing: a server that is down is no reason to fail.
// The error is about the URL, matches node.ErrInvalid, and contains no password. The
// tables have to be there: see Migrate.
func Open(rawURL string) (*Node, error) {
	s, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(s.config)
	if err != nil {
		return nil, engine.Invalidf("mysqlnode: the node's URL %s: %v", s.name, err)
	}
	db := sql.OpenDB(guarded{connector})
	db.SetMaxOpenConns(mostConnections)
	db.SetMaxIdleConns(mostConnections)
	db.SetConnMaxIdleTime(idleConnection)
	n := newNode(s.name, db)
	n.own, n.location = true, location{s.config.Net, s.config.Addr, s.config.DBName, s.name, nil}
	return n, nil
}

// New returns a node on a pool of connections that is there already, of the driver
// github.com/go-sql-driver/mysql or one that wraps it. Close leaves it open. The name is what
// String returns, and what all clients of the group call the node. It is host:port/database, as
// Open names it, if some of them have its URL.
//
// The pool has to have room for two connections at least, or New refuses it. One is for waiters,
// and is kept while there are any. What else could matter of a connection is looked at whenever one
// is used: that autocommit is on. Time zones, timestamps, parseTime, sql_mode and isolation levels
// are not: nothing here depends on them. Do not give RejectReadOnly to the driver: it reports
// statements that the server has seen as not sent.
func New(db *sql.DB, name string) (*Node, error) {
	switch most := db.Stats().MaxOpenConnections; {
	case !engine.IsMember(name):
		return nil, engine.Invalidf("mysqlnode: the name %q of the node is empty, has spaces or is *", name)
	case most == 1:
		return nil, engine.Invalidf("mysqlnode: node %s: the pool has one connection (SetMaxOpenConns); at least two are needed, the node keeps one while a client waits for a lock", name)
	}
	return newNode(name, db), nil
}

func newNode(name string, db *sql.DB) *Node {
	p := &pool{db: db, steady: make(map[string]*steady)}
	n := &Node{pool: p, location: location{db: db}}
	n.Queued = cas.NewQueued(n, store{p}, cas.Config{Kind: "mysql", Name: name, Explain: explained, MaxRecord: maxStripe,
		Exact: true, Slack: slack})
	p.patience, p.finish = context.WithCancel(n.Life())
	p.joined = n.Admission().Joined
	return n
}

// maxStripe bounds what is written to a row, in bytes. A server refuses a statement that is longer
// than its max_allowed_packet: 16 MiB, by default, of hexadecimal digits.
const maxStripe = 4 << 20

// location is where a node's leases are, for all that a process knows.
type location struct {
	network, address, database, name string
	db                               *sql.DB // nil, or the caller's
}

// Location implements node.Located.
func (n *Node) Location() any { return n.location }

// Finish implements node.Finisher: no operation waits any more for a connection, or for the
// server to be admitted. What was sent goes on.
func (n *Node) Finish() {
	n.Queued.Finish()
	if n.sessions.none() {
		n.finish()
		return
	}
	time.AfterFunc(grace, n.finish) // for what waits for a connection of the pool
}

// grace is how long a request may wait for a connection after Finish, to a server that was
// reached before.
const grace = 500 * time.Millisecond

// idleConnection is how long an unused connection is kept.
const idleConnection = 5 * time.Minute

// Close ends the listeners, and closes the connections that Open made. Requests under way
// fail, with an unknown outcome; leases stay. A second Close does nothing.
func (n *Node) Close() error {
	n.Queued.Close()
	if n.own {
		return n.Fail("close", n.db.Close())
	}
	return nil
}
